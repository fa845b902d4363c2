"""Failure messages of runners, and the missing names in them."""

import subprocess
import sys

import pytest

from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.logparse import parse_log
from turnsmith.grading.testing import SuiteReport
from turnsmith.qualification.failures import find_messages, find_missing_names
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Task

LOG = """
==================================== ERRORS ====================================
_____________________ ERROR collecting tests/test_other.py _____________________
ImportError while importing test module '/testbed/tests/test_other.py'.
E   ModuleNotFoundError: No module named 'shop.taxes'
______________________ ERROR collecting tests/test_one.py ______________________
tests/test_one.py:1: in <module>
    from shop import refund
E   ImportError: cannot import name 'refund' from 'shop' (/testbed/shop.py)
=========================== short test summary info ============================
"""


def test_uncollected_test_has_the_message_of_its_file():
    report = SuiteReport({"tests/test_a.py::test_a": TestResult("failed", "assert 0")}, 2, 1.0, log=LOG)
    tests = [
        "tests/test_one.py::TestX::test_y",
        "tests/test_other.py::test_y",
        "tests/test_a.py::test_a",
        "tests/test_gone.py::z",
    ]
    assert list(find_messages(tests, report).values()) == [
        "E   ImportError: cannot import name 'refund' from 'shop' (/testbed/shop.py)",
        "E   ModuleNotFoundError: No module named 'shop.taxes'",
        "assert 0",
        "",
    ]


def test_failed_conftest_gives_the_message_of_its_tests(tmp_path):
    complaint = "E   ImportError: cannot import name 'refund' from 'shop'"
    folder = f"_____ ERROR collecting tests/deep _____\n{complaint}\n=== short test summary info ===\n"
    tests = ["tests/deep/test_a.py::t", "tests/deeper/test_b.py::t"]
    assert list(find_messages(tests, SuiteReport({}, 2, 1.0, log=folder)).values()) == [complaint, ""]

    for name, text in (("shop.py", ""), ("conftest.py", "from shop import refund\n"), ("test_a.py", "")):
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "--rootdir", tmp_path, "--tb=short", "test_a.py"]
    ran = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = find_messages(tests, SuiteReport({}, ran.returncode, 1.0, log=ran.stdout))
    assert [message.partition(" (")[0] for message in said.values()] == [complaint, complaint]


BY_UNITTEST = '''import unittest

import shop


class T(unittest.TestCase):
    def test_wants(self):
        """First line."""
        shop.TAX

    def test_value(self):
        self.assertEqual(1, 2, "two\\n\\nlines")

    def test_each(self):
        with self.subTest(i=1):
            shop.refund

    def test_chain(self):
        try:
            shop.TAX
        except AttributeError as error:
            raise ValueError("no tax") from error

    def test_passes(self):
        pass


class S(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shop.Till

    def test_never(self):
        pass
'''


@pytest.mark.parametrize("arguments", [["tests.test_shop", "tests.test_gone"], ["discover"]])
def test_unittest_message_is_the_last_line_of_the_traceback(tmp_path, arguments):
    (tmp_path / "tests").mkdir()
    tests = {"__init__": "", "test_shop": BY_UNITTEST, "test_gone": "from shop import refund\n"}
    for name, text in {"shop": "", **{f"tests/{name}": text for name, text in tests.items()}}.items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "unittest", *arguments, "-v"]
    log = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    no_tax = "AttributeError: module 'shop' has no attribute 'TAX'"
    expected = {
        "test_wants (tests.test_shop.T)": no_tax,
        "tests.test_shop.T.test_wants": no_tax,
        "First line.": no_tax,
        "test_value (tests.test_shop.T.test_value)": "AssertionError: 1 != 2 : two",
        "test_each (tests.test_shop.T)": "AttributeError: module 'shop' has no attribute 'refund'",
        "test_chain (tests.test_shop.T)": "ValueError: no tax",
        "test_passes (tests.test_shop.T)": "",
        "test_never (tests.test_shop.S)": "AttributeError: module 'shop' has no attribute 'Till'",
        "test_b (tests.test_gone.T)": "ImportError: cannot import name 'refund' from 'shop'",
    }
    report = SuiteReport(parse_log(log, "unittest", expected), 1, 1.0, log=log)
    found = {test: message.partition(" (")[0] for test, message in find_messages(expected, report).items()}
    assert found == expected


IMPORT = "ImportError: cannot import name 'refund' from 'shop'"


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([IMPORT], ["refund"]),
        ([IMPORT, "AttributeError: module 'shop' has no attribute 'TAX'"], ["TAX", "refund"]),
        (["ModuleNotFoundError: No module named 'shop.taxes'"], ["taxes"]),
        ([IMPORT, "assert 1 == 2"], []),
        ([IMPORT, ""], []),
        (["AttributeError: 'int' object has no attribute 'isdigit'"], []),
        ([], []),
    ],
)
def test_names_are_missing_only_if_every_failure_needs_one_of_the_gold_patch(messages, names):
    patch = make_patch("shop/__init__.py", "", "TAX = 1\n\n\ndef refund(): ...\n") + make_patch(
        "shop/taxes.py", "", "1\n"
    )
    task = Task(
        instance_id="t", repo="r", base_commit="c", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
        patch=patch, layers=["l"],
    )  # fmt: skip
    assert find_missing_names(task, messages) == names


def test_name_that_the_patch_only_uses_is_not_missing():
    patch = make_patch("a.py", "x = parent.opts\n", "x = getattr(root, 'opts')\n")
    task = Task(
        instance_id="t", repo="r", base_commit="c", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
        patch=patch, layers=["l"],
    )  # fmt: skip
    assert find_missing_names(task, ["AttributeError: 'List' object has no attribute 'opts'"]) == []


@pytest.mark.parametrize(
    ("name", "issue", "is_given"),
    [
        ("visit_unknown", "AsString has no attribute 'visit_unknown'", True),
        ("visit_unknown", "visit_unknown is missing", True),
        ("visit_unknown", "visit_unknown_node is missing", False),
        ("refund", "A refund is not possible.", False),
        ("refund", "Add refund() to the shop.", True),
        ("refund", "Add `refund` to the shop.", True),
        ("refund", "Call shop.refund for it.", True),
    ],
)
def test_name_in_the_issue_is_not_missing(name, issue, is_given):
    task = Task(
        instance_id="t", repo="r", base_commit="c", problem_statement=issue, FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
        patch=make_patch("shop.py", "", f"def {name}(): ...\n"), layers=["l"],
    )  # fmt: skip
    message = f"AttributeError: no, 'X' object has no attribute '{name}'"
    assert find_missing_names(task, [message]) == ([] if is_given else [name])
