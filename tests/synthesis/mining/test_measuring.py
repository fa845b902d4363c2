"""Tests of the reasons for rejection, which quote the last error of the log."""

import pytest

from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.testing import SuiteReport
from turnsmith.synthesis.mining.measuring import compare, measure


def report_of(log="", **statuses):
    return SuiteReport({test: TestResult(status) for test, status in statuses.items()}, 1, 0.1, log=log)


NO_BSON = """
tests/test_a.py:1: in <module>
E   ImportError: first
E   ModuleNotFoundError: No module named 'bson'
1 error in 0.11s
"""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (NO_BSON, "ModuleNotFoundError: No module named 'bson'"),
        ("Traceback\npkg.errors.SetupError: no\n", "pkg.errors.SetupError: no"),
        ("E   assert 1 == 2\n1 failed\n", "1 failed"),
        ("", ""),
    ],
)
async def test_the_reason_quotes_the_last_error_after_the_change(log, error):
    measured = await measure(None, "", report_of(log, a="error"), repeats=2)
    assert measured.reason == f"no test passes after the change: {error}"


def test_the_message_of_a_test_is_its_error():
    results = {"a": TestResult("error", "ImportError: no"), "b": TestResult("passed", "x")}
    assert SuiteReport(results, 1, 0.1, log="1 error").last_error == "ImportError: no"


def test_the_reason_quotes_the_last_error_before_the_change():
    measured = compare([report_of(NO_BSON, a="error")], [report_of(a="passed")])
    assert measured.reason == "no test passes before the change: ModuleNotFoundError: No module named 'bson'"
