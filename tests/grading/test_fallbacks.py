"""Fallbacks of `turnsmith grade` for applying a patch; `tests/cli/test_harness.py` compares them with swebench."""

import pytest

from turnsmith.errors import GradingError
from turnsmith.grading.fallbacks import apply_as_harness
from turnsmith.types import Task, TaskTree

FILES = {"shop.py": b"def double(x):\n    return x\n", "windows.txt": b"1\r\n2\r\n", ".gitattributes": b"* text=auto\n"}
PATCH = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n def double(x):\n-    return x\n+    return 2 * x\n"
WINDOWS = "--- a/windows.txt\n+++ b/windows.txt\n@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+3\r\n"


@pytest.fixture
def layers(tmp_path):
    (tmp_path / "tree").mkdir()
    for name, content in FILES.items():
        (tmp_path / "tree" / name).write_bytes(content)
    return (tmp_path / "tree",)


def make_task(**columns):
    names = dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch"), "x")
    return Task(**names, layers=["x"], FAIL_TO_PASS=["a.py::t"], PASS_TO_PASS=[], **columns)


async def test_difference_contains_only_changes_of_the_patch(provider, layers):
    task = make_task(setup=["echo made > made.txt", "sed -i s/double/twice/ shop.py"])
    patch = PATCH.replace("double", "twice")
    applied = await apply_as_harness(provider, TaskTree(task, layers), patch)
    assert applied.patch.startswith("diff --git a/shop.py b/shop.py\n") and applied.patch.endswith(patch)
    assert applied.patch.count("diff --git") == 1


async def test_git_attributes_of_the_tree_change_no_content(provider, layers):
    applied = await apply_as_harness(provider, TaskTree(make_task(), layers), WINDOWS)
    assert applied.patch.endswith(WINDOWS)


async def test_difference_contains_an_ignored_new_file(provider, layers):
    ignored = "--- /dev/null\n+++ b/new.log\n@@ -0,0 +1 @@\n+x\n"
    (layers[0] / ".gitignore").write_text("*.log\n")
    applied = await apply_as_harness(provider, TaskTree(make_task(), layers), ignored)
    assert "new file mode 100644" in applied.patch and applied.patch.endswith(ignored)


async def test_inapplicable_patch_gives_a_log_and_no_difference(provider, layers):
    applied = await apply_as_harness(provider, TaskTree(make_task(), layers), PATCH.replace("return x", "return 7"))
    assert applied.patch is None and "--fuzz=5" in applied.log


@pytest.mark.parametrize(
    ("program", "end", "why"), [("git", "kill -9 $$", "ended with 137"), ("patch", "exit 127", "not installed")]
)
async def test_crashed_program_raises_a_grading_error(provider, layers, tmp_path, program, end, why):
    if not provider.takes_environments:
        pytest.skip("these sandboxes show no environment of a task")
    place = tmp_path / "environment/bin" / program
    place.parent.mkdir(parents=True)
    place.write_text(f'#!/bin/sh\ncase "$*" in *apply*|*-p1*) {end};; esac\nexec /usr/bin/{program} "$@"\n')
    place.chmod(0o755)
    task = make_task(environment=str(place.parents[1]))
    with pytest.raises(GradingError, match=why):
        await apply_as_harness(provider, TaskTree(task, layers), PATCH.replace("return x", "return 7"))
