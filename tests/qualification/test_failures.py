"""What pytest says of failures, and the names that they want."""

import pytest

from turnsmith.qualification.verdicts import find_messages, find_missing_names
from turnsmith.rewards.logparse import TestResult
from turnsmith.rewards.testing import SuiteReport
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


def test_a_test_that_was_not_collected_has_the_message_of_its_file():
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
def test_a_task_wants_names_only_if_every_failure_does_and_the_gold_patch_brings_them(messages, names):
    patch = make_patch("shop/__init__.py", "", "TAX = 1\n\n\ndef refund(): ...\n") + make_patch(
        "shop/taxes.py", "", "1\n"
    )
    task = Task(
        instance_id="t", repo="r", base_commit="c", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
        patch=patch, layers=["l"],
    )  # fmt: skip
    assert find_missing_names(task, messages) == names
