"""Suites of other runners from end to end: real runners, hidden tests, ids as in their data sets."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from turnsmith.grading.grading import Grader
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer
from turnsmith.types import Outcome, Task, TaskTree

BUGGY, FIXED = "def double(x):\n    return x\n", "def double(x):\n    return 2 * x\n"
UNITTEST = """from unittest import TestCase, skip

from {module} import double


class DoubleTests(TestCase):
    def test_two(self):
        self.assertEqual(double(2), 4)

    def test_text(self):
        '''Text is doubled, too.'''
        self.assertEqual(double("a"), "aa")

    def test_zero(self):
        self.assertEqual(double(0), 0)

    @skip("never")
    def test_never(self):
        pass
"""
MANAGE = """import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    INSTALLED_APPS=["shop"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()
execute_from_command_line(sys.argv)
"""
BIN_TEST = """import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from sympy.testing.runtests import test

sys.exit(not test(*sys.argv[1:], verbose=True, colors=False, subprocess=False))
"""
BY_SYMPY = """from sympy.utilities.doubling import double


def test_two():
    assert double(2) == 4


def test_zero():
    assert double(0) == 0


def test_last():
    pass
"""
"""The runner writes `[OK]` after the last test; the harness cannot read this line, so data sets do not list the test."""
DJANGO = UNITTEST.replace("unittest import TestCase, skip", "unittest import skip\n\nfrom django.test import TestCase")


@dataclass(frozen=True)
class Suite:
    """Repository with its runner, command and expected tests."""

    module: str
    files: dict[str, str]
    hidden: dict[str, str]
    command: str
    directives: list[str]
    parser: str
    fixed: list[str]
    maintained: list[str]
    packages: tuple[str, ...] = ()
    """Files of a lower layer, at the root of the tree."""


SUITES = {
    "unittest": Suite(
        "shop/double.py", {"shop/__init__.py": "", "tests/__init__.py": ""},
        {"tests/test_double.py": UNITTEST.format(module="shop.double")},
        "python -m unittest -v", ["tests.test_double"], "unittest",
        ["test_two (tests.test_double.DoubleTests)", "test_text (tests.test_double.DoubleTests)"],
        ["test_zero (tests.test_double.DoubleTests)", "test_never (tests.test_double.DoubleTests)"],
    ),
    "django": Suite(
        "shop/double.py", {"shop/__init__.py": "", "manage.py": MANAGE},
        {"shop/tests.py": DJANGO.format(module="shop.double")},
        "python manage.py test --verbosity 2", ["shop.tests"], "parse_log_django",
        ["test_two (shop.tests.DoubleTests)", "Text is doubled, too."],
        ["test_zero (shop.tests.DoubleTests)", "test_never (shop.tests.DoubleTests)"],
        ("django==4.2.16", "asgiref", "sqlparse"),
    ),
    "sympy": Suite(
        "sympy/utilities/doubling.py", {"bin/test": BIN_TEST}, {"sympy/utilities/tests/test_doubling.py": BY_SYMPY},
        "python bin/test", ["sympy/utilities/tests/test_doubling.py"], "parse_log_sympy", ["test_two"], ["test_zero"],
        ("sympy==1.12", "mpmath==1.3.0"),
    ),
}  # fmt: skip


def add_file(path, text):
    """Make a patch that adds a file."""
    lines = text.splitlines()
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    )
    return head + "".join(f"+{line}\n" for line in lines)


def install(packages, folder):
    """Find the files of the runner; skip the test if they are not available."""
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        folder,
        *packages,
    ]
    if packages and subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"{packages[0]} could not be installed")


@pytest.mark.parametrize(
    "name", ["unittest", *(pytest.param(name, marks=pytest.mark.slow) for name in ("django", "sympy"))]
)
async def test_only_the_gold_patch_is_resolved(provider, tmp_path, name):
    suite = SUITES[name]
    install(suite.packages, tmp_path / "packages")
    tree = to_tree({suite.module: BUGGY, **suite.files})
    write_bug_layer(tmp_path / "layer", tree, {path: file.content for path, file in tree.items()})
    task = Task(
        instance_id=name, repo=name, base_commit="c", problem_statement="p", layers=["packages", "layer"],
        patch=make_patch(suite.module, BUGGY, FIXED), test_patch="".join(add_file(*file) for file in suite.hidden.items()),
        test_command=suite.command, test_files=suite.directives, log_parser=suite.parser, status_rules="swe-bench",
        FAIL_TO_PASS=suite.fixed, PASS_TO_PASS=suite.maintained,
    )  # fmt: skip
    layers = (tmp_path / "packages", tmp_path / "layer")
    grader = Grader(provider, tests_timeout_s=120.0, num_workers=1)
    gold = await grader.grade(TaskTree(task, layers), task.patch)
    assert gold.resolved, gold
    untouched = await grader.grade_unpatched(TaskTree(task, layers))
    assert untouched.outcome is Outcome.UNRESOLVED
    assert {test for test, status in untouched.statuses.items() if status != "passed"} == set(suite.fixed)
    broken = await grader.grade(TaskTree(task, layers), make_patch(suite.module, BUGGY, "def double(x): return 2 *\n"))
    assert broken.outcome is Outcome.UNRESOLVED
    leaves = await grader.grade(TaskTree(task, layers), make_patch(suite.module, BUGGY, "import os\nos._exit(0)\n"))
    assert leaves.outcome is Outcome.UNRESOLVED
