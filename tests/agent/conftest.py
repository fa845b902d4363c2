"""Small real sandbox (a directory and subprocesses), small real tokenizer, and a runner of commands."""

import asyncio
import difflib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from support.models.small_tokenizers import make_tokenizer
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.agent.tools.base import Session, ToolContext
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.types import ExecResult, Task


class DirectorySandbox:
    """Sandbox protocol over a plain directory, without isolation."""

    isolation = "none"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[str] = []
        self.freeze_base()

    def freeze_base(self):
        """Take the current tree as the layers of later diffs."""
        self.base = self._texts()

    async def exec(self, command, *, timeout_s, cwd=None, stdin=b"", env=None):
        self.commands.append(command)
        started = time.monotonic()
        script = f"{command}\ncode=$?; pwd > .cwd-{id(self)}; exit $code"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, cwd=cwd or self.root, start_new_session=True, env=self._env(),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout_s)
            timed_out = False
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            output, timed_out = b"", True
        return ExecResult(process.returncode, output, time.monotonic() - started, timed_out, cwd=self._pop_cwd())

    async def read(self, path):
        return Path(path).read_bytes()

    async def write(self, path, content):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    async def diff(self):
        now, patch = self._texts(), []
        for name in sorted(self.base | now):
            old, new = (texts.get(name, "").splitlines(keepends=True) for texts in (self.base, now))
            patch.extend(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
        return "".join(patch)

    async def stop(self):
        pass

    def _texts(self):
        files = (path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(self.root)): path.read_bytes().decode("utf-8", "replace") for path in files}

    def _env(self):
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}

    def _pop_cwd(self):
        for note in self.root.rglob(f".cwd-{id(self)}"):
            note.unlink()
            return str(note.parent)
        return ""


class Player:
    """Runner of commands, one after another, that keeps the session as the loop does."""

    def __init__(self, sandbox, scaffold, window_lines=10, timeout_s=10.0):
        self.scaffold = scaffold
        self.context = ToolContext(sandbox, window_lines, timeout_s)
        self.session = Session(str(sandbox.root))
        self.result = None

    async def __call__(self, command):
        self.result = await self.scaffold.act(command, self.session, self.context)
        self.session = self.result.session
        return self.result.text


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def sandbox(project):
    return DirectorySandbox(project)


@pytest.fixture
def play_with(sandbox):
    """Command runner of any scaffold."""
    return lambda scaffold, **limits: Player(sandbox, scaffold, **limits)


@pytest.fixture
def play(play_with):
    return play_with(load_scaffold("paper"))


@pytest.fixture
def numbered(project):
    """Write a file of `count` lines `line 1`, `line 2`, … and return its name."""

    def write(name, count):
        (project / name).write_text("".join(f"line {number}\n" for number in range(1, count + 1)))
        return name

    return write


@pytest.fixture
def make_task(project):
    def make(problem_statement="`total` is wrong."):
        return Task(
            instance_id="demo-1", repo="demo", base_commit="0", problem_statement=problem_statement,
            FAIL_TO_PASS=["a"], PASS_TO_PASS=["b"], patch="", layers=["."], workdir=str(project),
        )  # fmt: skip

    return make


@pytest.fixture(scope="session")
def renderer():
    return ChatRenderer(make_tokenizer())
