"""Outcomes of agents that break their own sandbox or the grader's: they count against the agent.

An infrastructure outcome would be masked, so the policy could learn to avoid a reward of 0.
"""

# ruff: noqa: E501  (an attack is one line, as an agent would write it)

import asyncio
from dataclasses import replace

import pytest

from turnsmith.config import AgentConfig, RolloutConfig, SandboxConfig
from turnsmith.git import diff
from turnsmith.git.patch_policy import MAX_PATCH_BYTES
from turnsmith.grading.grading import Grader
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import OUTCOMES, Outcome, Task, TaskTree

from .conftest import BUGGY, CLEAN, turn

AGENT = AgentConfig(
    prompts="brief", max_turns=6, max_context=8_192, max_new_tokens=2_048, window_lines=10, max_observation_tokens=64,
    command_timeout_s=3.0,
)  # fmt: skip
ROLLOUTS = RolloutConfig(concurrency=4)
LIMITS = SandboxConfig(memory_mb=128, max_processes=32, disk_mb=32)

STEAL = "import os\nfd = os.open('/proc/self/fd/1', os.O_RDONLY)\nwhile True: os.read(fd, 1 << 16)"
"""Script that steals data from a shared pipe, so that its reader finds nothing."""
STOP = "import os\nwhile os.getppid() != 1: pass\nwhile True: os.kill(-1, 19)"
"""Script that stops all other processes once the shell is gone."""
SWAP = """import contextlib, os
while True:
    for make in (lambda: os.mkfifo('x'), lambda: os.mkdir('x'), lambda: open('x', 'w').write('x'), lambda: os.symlink('y', 'x')):
        with contextlib.suppress(OSError): make()
        with contextlib.suppress(OSError): os.open('x', os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(OSError): os.remove('x')
        with contextlib.suppress(OSError): os.rmdir('x')"""
"""Script that keeps changing the file type of a name."""


def script(text: str) -> str:
    """Return a shell command that runs Python code."""
    return f"cat > /tmp/s.py <<'END'\n{text}\nEND\npython /tmp/s.py"


COMMANDS = {
    "a fork bomb": [":(){ :|:& };:"],
    "no process left for anyone": ["for i in $(seq 60); do sleep 99 & done", "echo x"],
    "everyone killed": ["kill -9 -1"],
    "everyone stopped, again and again": [script("import os\nwhile True: os.kill(-1, 19)") + " & sleep 0.5"],
    "its own shell stopped": ["kill -STOP $$"],
    "process 1 without descriptors and processes": ["prlimit --pid 1 --nofile=3:3", "prlimit --pid 1 --nproc=1:1"],
    "process 1 signalled": ["for s in $(seq 1 64); do kill -$s 1; done; gdb -p 1; cat /proc/1/mem"],
    "memory": [script("kept = [bytearray(1 << 20) for _ in range(1 << 20)]")],
    "memory in many processes": ["for i in $(seq 20); do " + "python -c 'import time; x = b\"x\" * (60 << 20); time.sleep(9)' & done; wait"],
    "a full disk": ["cat /dev/zero > big; cat /dev/zero > /tmp/big"],
    "no inode left": [script("i = 0\nwhile True: open(f'/tmp/f{i}', 'x').close(); i += 1")],
    "endless output": ["yes"],
    "endless output from the background": ["yes & sleep 0.2", "echo x"],
    "output that is read back": [script(STEAL) + " & for i in 1 2 3 4; do python /tmp/s.py & done; sleep 0.3; for i in $(seq 300); do echo x; sleep 0.002; done; sleep 9"],
    "everyone stopped whom the host starts": [script(STOP) + " & true", "open numbers_.py"],
    "no descriptor left": [script("import os\nwhile True: os.open('/dev/null', 0)")],
    "pipes and sockets": [script("import socket, time\nk = []\ntry:\n  while True:\n    a, b = socket.socketpair(); k.append((a, b)); a.setblocking(False); a.send(b'x' * 200000)\nexcept OSError: time.sleep(1)")],
    "the tree removed": ["cd /testbed; rm -rf * .[a-z]*; mkdir -p d; cd d; rmdir ../d"],
    "the tree locked": ["mkdir -p a/b; echo x > a/b/c; chmod 000 a/b/c a/b a numbers_.py; chmod 000 /tmp/home /tmp .; exit 0"],
    "folders without end": [script("import os\nfor _ in range(3000): os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('x', 'w')")],
    "files without end": [script("import os\nfor d in range(6):\n  os.mkdir(f'{d}')\n  for i in range(1000): open(f'{d}/{i}', 'w').write('x')")],
    "names that nobody can read": [script(
        "import os, contextlib\nfor n in range(1, 256):\n for name in (bytes([n]), b'.git' + bytes([n]), b'a' + bytes([n]) + b'\\n\"\\\\', b'-' + bytes([n])):\n"
        "  with contextlib.suppress(OSError): open(name, 'wb').write(b'x')\n"
        "for name in ('.gitmodules', '.gitattributes', '.gitignore', '.mailmap', 'GIT~1', '.g\\u200cit', '.git ', 'git~1', '.Gitmodules', 'gitmod~1'):\n"
        "  with contextlib.suppress(OSError): os.symlink('/etc/passwd', name)")],
    "things that are no files": ["mkfifo pipe; python -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"; ln -s loop loop; rm numbers_.py; mkfifo numbers_.py"],
    "sparse and huge": ["truncate -s 1T big; truncate -s 15M a b c d e f g; ln big link"],
    "what changes while one looks": [script(SWAP) + " & sleep 0.3"],
    "a directory that is gone": ["mkdir -p x; cd x; rmdir ../x", "echo x"],
    "a flood of signals to the shell's parents": ["while :; do kill -CHLD 1; done"],
    "a terminal's codes": [r"printf '\033[2J\377\000\x1b]0;x\x07'; echo $'\u202e'"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_retries(monkeypatch):
    """Let the first try of an attack decide."""
    monkeypatch.setattr("turnsmith.rollouts.generator.RETRIES", 0)


@pytest.fixture
async def provider():
    provider = make_provider(LIMITS)
    yield provider
    await provider.close()


@pytest.mark.parametrize("name", COMMANDS)
async def test_agent_that_breaks_its_sandbox_gets_an_agent_outcome(make_generator, tree, journal, name):
    answers = [turn("ls"), *map(turn, COMMANDS[name]), turn("open numbers_.py"), turn("submit")]
    generator = make_generator(answers, ROLLOUTS)
    [trajectory] = await generator.collect(plan_rollouts([tree], prefix="t", iteration=0, num_each=1, seed_stream=""), AGENT,
                                           journal, label="x")  # fmt: skip
    assert OUTCOMES[trajectory.outcome].in_group, trajectory.detail
    assert not trajectory.resolved


async def test_too_large_patch_is_cut_flagged_and_scored(make_generator, tree, journal):
    answers = [turn(f"head -c {2 * MAX_PATCH_BYTES} /dev/urandom > noise"), turn("submit")]
    generator = make_generator(answers, ROLLOUTS)
    [trajectory] = await generator.collect(plan_rollouts([tree], prefix="t", iteration=0, num_each=1, seed_stream=""), AGENT,
                                           journal, label="x")  # fmt: skip
    assert (trajectory.outcome, trajectory.patch.partition(":")[0]) == (Outcome.PATCH_INVALID, "no patch")
    assert len(trajectory.patch) < 100_000 and "bytes" in trajectory.detail


def test_patch_within_the_graders_limit_is_not_cut():
    assert diff.MAX_PATCH_BYTES == MAX_PATCH_BYTES


STEALING = ["import os, threading, time", "def steal():", "    fd = os.open('/proc/self/fd/1', os.O_RDONLY)", "    while True: os.read(fd, 1)",
            "for _ in range(4): threading.Thread(target=steal, daemon=True).start()"]  # fmt: skip
PATCHES = {
    "everyone killed at import": ["import os", "os.kill(-1, 9)"],
    "the tests' process killed": ["import os", "os.kill(os.getpid(), 9)"],
    "the tests' process stopped": ["import os", "os.kill(os.getpid(), 19)"],
    "everyone else stopped": ["import os", "while True: os.kill(-1, 19)"],
    "a fork bomb": ["import os", "while True:", "    try: os.fork()", "    except OSError: pass"],
    "memory": ["kept = []", "while True: kept.append(bytearray(1 << 20))"],
    "a full disk": ["with open('/tmp/big', 'wb') as f:", "    while True: f.write(bytes(1 << 20))"],
    "endless output": ["import os", "while True: os.write(1, b'x' * 65536)"],
    "output that is read back": [*STEALING, "for _ in range(300): os.write(1, b'x'); time.sleep(0.001)", "time.sleep(99)"],
    "no descriptor left": ["import os", "while True: os.dup(1)"],
    "an end without a word": ["import os", "os._exit(0)"],
    "its home removed": ["import os, shutil", "shutil.rmtree('/tmp/home'); os.chmod('/tmp', 0)"],
    "a hang": ["import time", "time.sleep(99)"],
    "process 1 signalled": ["import os", "for s in range(1, 65): os.kill(1, s)"],
    "an endless recursion in C": ["import ctypes", "ctypes.string_at(0)"],
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
async def test_patch_that_breaks_grading_gets_an_agent_outcome(provider, tree, name):
    grader = Grader(provider, tests_timeout_s=3, num_workers=1)
    ruin = make_patch("numbers_.py", BUGGY, "\n".join(PATCHES[name]) + "\n" + CLEAN)
    grade = await grader.grade(tree, ruin)
    assert OUTCOMES[grade.outcome].in_group, grade.detail


async def test_patch_that_blocks_hidden_tests_gets_an_agent_outcome(provider, tree):
    hidden = "diff --git a/data/x.txt b/data/x.txt\nnew file mode 100644\n--- /dev/null\n+++ b/data/x.txt\n@@ -0,0 +1 @@\n+x\n"
    in_the_way = "diff --git a/data b/data\nnew file mode 100644\n--- /dev/null\n+++ b/data\n@@ -0,0 +1 @@\n+x\n"
    hiding = replace(tree, task=tree.task.model_copy(update={"test_patch": hidden}))
    grader = Grader(provider, tests_timeout_s=3, num_workers=1)
    gold, blocked = await asyncio.gather(*(grader.grade(hiding, patch) for patch in (tree.task.patch, in_the_way)))
    assert gold.outcome is Outcome.RESOLVED
    assert blocked.outcome is Outcome.EMPTY_PATCH  # test files are left out of the patch


async def test_fix_that_replaces_the_test_folder_by_a_file_is_graded_without_it(provider, tmp_path):
    for name, text in {
        "numbers_.py": BUGGY,
        "tests/test_a.py": "import numbers_\n\n\ndef test_a():\n    assert numbers_.double(3) == 6\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    record = Task(instance_id="a", repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["tests/test_a.py::test_a"], PASS_TO_PASS=[],
                  patch=make_patch("numbers_.py", BUGGY, CLEAN), layers=["."])  # fmt: skip
    gone = (
        "diff --git a/tests/test_a.py b/tests/test_a.py\ndeleted file mode 100644\n--- a/tests/test_a.py\n+++ /dev/null\n@@ -1,5 +0,0 @@\n"
        + "".join(f"-{line}\n" for line in (tmp_path / "tests/test_a.py").read_text().splitlines())
    )
    file = "diff --git a/tests b/tests\nnew file mode 100644\n--- /dev/null\n+++ b/tests\n@@ -0,0 +1 @@\n+x\n"
    grade = await Grader(provider, tests_timeout_s=5, num_workers=1).grade(
        TaskTree(record, (tmp_path,)), record.patch + gone + file
    )
    assert OUTCOMES[grade.outcome].in_group, grade.detail
