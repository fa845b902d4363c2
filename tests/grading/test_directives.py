"""Arguments of a test command: those of the row, the files of pytest ids, or none."""

import pytest

from turnsmith.grading.cases import Case
from turnsmith.grading.grading import Grader
from turnsmith.grading.testing import find_test_files
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer
from turnsmith.types import Outcome, Task, TaskTree

BUGGY, FIXED = "def double(x):\n    return x\n", "def double(x):\n    return 2 * x\n"
TESTS = """import unittest

from shop import double


class T(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), 4)

    def test_zero(self):
        self.assertEqual(double(0), 0)
"""


@pytest.mark.parametrize(
    ("tests", "files"),
    [
        (
            ["tests/test_b.py::t", "tests/test_a.py::T::t[x y]", "tests/test_a.py::u"],
            ("tests/test_a.py", "tests/test_b.py"),
        ),
        (["test_x (queries.tests.T)", "test_eq", "tests::it_works", "test_x (queries.tests.T.test_x)"], ()),
    ],
)
def test_only_pytest_ids_name_files(tests, files):
    assert find_test_files(tests) == files


def make_task(**columns):
    return Task(
        instance_id="shop-1", repo="shop", base_commit="c", problem_statement="p", layers=["x"],
        FAIL_TO_PASS=["test_double (tests.test_shop.T)"], PASS_TO_PASS=["test_zero (tests.test_shop.T)"],
        patch=make_patch("shop.py", BUGGY, FIXED), test_command="python -m unittest -v", log_parser="unittest", **columns,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("directives", "outcome"),
    [(["tests.test_shop"], Outcome.RESOLVED), ([], Outcome.RESOLVED), (["shop"], Outcome.UNRESOLVED)],
)
async def test_unittest_runs_the_test_files_of_the_row_or_all_tests(provider, tmp_path, directives, outcome):
    tree = to_tree({"shop.py": BUGGY, "tests/__init__.py": "", "tests/test_shop.py": TESTS})
    write_bug_layer(tmp_path / "layer", tree, {path: file.content for path, file in tree.items()})
    task = make_task(test_files=directives)
    assert Case(TaskTree(task, (tmp_path / "layer",)), provider, 60.0).directives == tuple(directives)
    grader = Grader(provider, tests_timeout_s=60.0, num_workers=1)
    assert (await grader.grade(TaskTree(task, (tmp_path / "layer",)), task.patch)).outcome is outcome
