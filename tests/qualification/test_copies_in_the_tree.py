"""Every kind of copy in a tree is found, and honest files are not."""

from dataclasses import replace

import pytest

from support.repositories.shop_texts import BASE, FIXED, HIDDEN, VISIBLE
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import search_tree
from turnsmith.qualification.record import LeakKind
from turnsmith.types import TaskTree


@pytest.fixture
def case(origin, provider):
    return Case(TaskTree(origin.task, (origin.folder,)), provider, 60.0)


async def find(case):
    return [(leak.kind, leak.where) for leak in await search_tree(case)]


def put(origin, path, text):
    file = origin.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def test_fix_in_the_history_is_no_leak(case, commit_fix):
    commit_fix()
    assert await find(case) == []


@pytest.mark.parametrize("path", ["shop.py.orig", ".cache/copy.txt", "build/lib/shop.py"])
async def test_fixed_file_in_the_tree_is_found(case, origin, path):
    put(origin, path, FIXED)
    assert await find(case) == [(LeakKind.GOLD_PATCH, path)]


async def test_hidden_tests_in_the_tree_are_found(case, origin):
    put(origin, "run_tests.py", VISIBLE + HIDDEN)
    assert await find(case) == [(LeakKind.TEST_PATCH, "run_tests.py")]


async def test_patch_files_in_the_tree_are_found(case, origin):
    put(origin, "fix.patch", origin.task.patch)
    put(origin, "home/test.patch", origin.task.test_patch)
    assert sorted(await find(case)) == [
        (LeakKind.GOLD_PATCH, "fix.patch"),
        (LeakKind.TEST_PATCH, "home/test.patch"),
    ]


async def test_copy_of_an_added_hidden_file_is_found(case, origin):
    tests = [f"def test_number_{number}():\n    assert compute({number}) == {number * 7}" for number in range(6)]
    lines = "\n".join(tests).split("\n")
    patch = "diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_new.py\n"
    patch += f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
    put(origin, "hidden/test_new.py", "\n".join(lines) + "\n")
    task = origin.task.model_copy(update={"test_patch": patch})
    assert await find(case.with_task(task)) == [(LeakKind.TEST_PATCH, "hidden/test_new.py")]


async def test_repeated_function_is_no_leak(case, origin):
    """Another file of the base also contains the lines of the fix."""
    twin = FIXED[FIXED.index("def total") :]
    other = "\n".join(f"def price_{number}():\n    return {number}\n" for number in range(20))
    put(origin, "cart.py", f"{other}\n{twin}")
    assert await find(case) == []


async def test_file_hidden_by_a_higher_layer_is_no_leak(case, origin, tmp_path):
    below = tmp_path / "below"
    (below / "build").mkdir(parents=True)
    (below / "build/shop.py").write_text(FIXED)
    put(origin, "build/shop.py", BASE)
    assert await find(replace(case, tree=replace(case.tree, layers=(below, origin.folder)))) == []


async def test_bytecode_of_the_fix_is_removed_from_the_tree(case, origin):
    put(origin, "__pycache__/shop.cpython-311.pyc", FIXED)
    put(origin, "shop.pyc", FIXED)
    assert await find(case) == []
