"""Selection of the test files that can detect a bug, because they call a function with a changed line.

Other test files execute the same code with and without the bug, so they are not run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from types import CodeType

from turnsmith.grading.testing import TEST_ENV, Suite
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.synthesis.bugs import Bug

PLUGIN = Path(__file__).with_name("call_recorder.py").read_text(encoding="utf-8")
ANSWER = ".turnsmith-called-lines"
SLOWDOWN = 5.0
"""Factor by which the time limit grows for tests that run with the plugin that records called lines."""
Lines = Mapping[str, frozenset[int]]
"""Line numbers by path of the source file."""


@dataclass(frozen=True)
class CalledLines:
    """Source lines that each test file may run: all lines of the functions that it calls."""

    called: Mapping[str, Lines | None]
    """Test file → source lines of the functions that it calls; None if unknown."""

    def find_files(self, bug: Bug) -> tuple[str, ...]:
        """Find the test files that may detect a bug: they call a function with a changed line, or their calls are unknown."""
        changed: dict[str, set[int]] = {}
        for path, mutation in bug.mutations:
            touched, code = set(mutation.lines), find_code_lines(mutation.source)
            changed.setdefault(path, set()).update(touched & code or code)
        return tuple(
            file
            for file, lines in self.called.items()
            if lines is None or any(lines.get(path, frozenset()) & touched for path, touched in changed.items())
        )


def find_code_lines(source: str) -> set[int]:
    """Find the numbers of the lines in a module that hold code. Raises SyntaxError."""
    waiting, lines = [compile(source, "module", "exec", dont_inherit=True)], set[int]()
    while waiting:
        code = waiting.pop()
        lines.update(line for *_, line in code.co_lines() if line)
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
    return lines


async def find_called_lines(provider: SandboxProvider, layers: tuple[Path, ...], suite: Suite) -> CalledLines:
    """Run each test file alone and record the source lines of the functions that it calls. Raises SandboxError."""
    return CalledLines({file: await find_called(provider, layers, suite, file) for file in suite.files})


async def find_called(provider: SandboxProvider, layers: tuple[Path, ...], suite: Suite, file: str) -> Lines | None:
    """Return the lines of all functions that a test file calls; None if it starts processes or is killed. Raises SandboxError."""
    write = f'printf %s {quote(PLUGIN)} > "$HOME/turnsmith_recorder.py"'
    path = f'export PYTEST_PLUGINS=turnsmith_recorder PYTHONPATH="$PYTHONPATH:$HOME" TURNSMITH_CALLS={ANSWER}'
    async with started(provider, SandboxSpec(layers, suite.workdir, image=suite.image)) as sandbox:
        script = f"{write}; {path}; {suite.command} {quote(file)}"
        await sandbox.exec(script, timeout_s=SLOWDOWN * suite.timeout_s, env=TEST_ENV)
        try:
            answer = json.loads(await sandbox.read(ANSWER))
        except (OSError, ValueError):
            return None
    if not answer["is_whole"]:
        return None
    return {path: frozenset(lines) for path, lines in answer["lines"].items()}
