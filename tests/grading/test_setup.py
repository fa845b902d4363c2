"""Set-up commands that change tracked files: the agent's patch excludes these changes and applies after them."""

import pytest

from turnsmith.grading.cases import APPLY
from turnsmith.sandboxes.base import SandboxSpec, started
from turnsmith.sandboxes.setup import set_up, set_up_for_agent
from turnsmith.types import Task, TaskTree

FILES = {"shop.py": "def double(x):\n    return x\n", "pins.txt": "numpy\n", "old.txt": "old\n"}
SETUP = ["sed -i s/double/twice/ shop.py", "echo made > made.txt", "rm old.txt", "echo pinned > pins.txt"]
WORK = {
    "a file that setup changed": "sed -i 's/return x/return 2 * x/' shop.py",
    "a file that setup made": "echo more >> made.txt",
    "a file that setup removed": "echo again > old.txt",
    "a file that setup changed, as it was before": "echo numpy > pins.txt",
    "a file of setup, removed": "rm made.txt",
    "a new file": "echo new > new.txt",
    "nothing": "true",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    names = dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch"), "x")
    task = Task(**names, layers=["x"], FAIL_TO_PASS=["a.py::t"], PASS_TO_PASS=[], setup=SETUP)
    return TaskTree(task, (tmp_path,))


async def read_tree(sandbox):
    return (await sandbox.exec("head -n 99 *.txt *.py", timeout_s=60)).output


@pytest.mark.parametrize("work", WORK)
async def test_patch_of_the_agent_excludes_setup_changes_and_applies(provider, tree, work):
    async with started(provider, SandboxSpec.of(tree)) as sandbox:
        await set_up_for_agent(sandbox, tree)
        await sandbox.exec(WORK[work], timeout_s=60)
        patch, left = await sandbox.diff(), await read_tree(sandbox)
    assert patch.count("diff --git") == (work != "nothing")
    async with started(provider, SandboxSpec.of(tree)) as pristine:
        await set_up(pristine, tree)
        if patch:
            assert (await pristine.exec(APPLY, timeout_s=60, stdin=patch.encode())).exit_code == 0
        assert await read_tree(pristine) == left
