import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.grading.judging import judge
from turnsmith.grading.log_parsers.base import SEVERITY, TestResult
from turnsmith.grading.rules import find_status
from turnsmith.grading.testing import SuiteReport
from turnsmith.types import Task

SEEN = {
    "a.py::t": "passed",
    "a.py::t[x y]": "passed",
    "a.py::t[x z]": "failed",
    "a.py::u[1]": "skipped",
    "a.py::v": "xfailed",
    "a.py::w[/tmp/x7/b.py]": "passed",
}


@pytest.mark.parametrize(
    ("test", "status"),
    [
        ("a.py::t", "passed"),
        ("a.py::t[x y]", "passed"),
        ("a.py::t[x", "failed"),  # cut: all that it may have been must hold
        ("a.py::t[x y", "passed"),
        ("a.py::u[1", "skipped"),
        ("a.py::u[", "skipped"),
        ("a.py::t[y", "missing"),
        ("a.py::", "missing"),  # no parameter was cut, so nothing is guessed
        ("a.py::u", "missing"),
        ("a.py::w[/b.py]", "passed"),  # its folder was left out
        ("a.py::w[/x7/b.py]", "missing"),
        ("a.py::w[b.py]", "missing"),
    ],
)
def test_cut_id_matches_by_its_beginning(test, status):
    assert find_status(test, SEEN) == status


def find_broken(fail_to_pass, pass_to_pass, rules="strict"):
    """Return the expected tests that a report breaks."""
    names = dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch"), "x")
    expected = {"FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": pass_to_pass, "status_rules": rules}
    task = Task(**names, **expected, layers=["tree"])
    grade = judge(task, SuiteReport({test: TestResult(status) for test, status in SEEN.items()}, 1, 0.1))
    broken = {test: status for test, status in grade.statuses.items() if status != "passed"}
    assert grade.resolved is not bool(broken)
    return broken


@pytest.mark.parametrize("rules", ["strict", "swe-bench", "multi-swe"])
def test_missing_test_is_broken_in_both_lists(rules):
    assert find_broken(["gone"], ["lost"], rules) == {"gone": "missing", "lost": "missing"}


def test_skip_counts_only_for_pass_to_pass_and_some_rules():
    assert find_broken([], ["a.py::u[1]"]) == {"a.py::u[1]": "skipped"}
    assert find_broken([], ["a.py::u[1]"], "swe-bench") == {}
    assert find_broken(["a.py::u[1]"], [], "swe-bench") == {"a.py::u[1]": "skipped"}


def test_expected_failure_counts_only_under_some_rules():
    assert find_broken(["a.py::v"], []) == {"a.py::v": "xfailed"}
    assert find_broken(["a.py::v"], ["a.py::v"], "swe-bench") == {}


def test_test_in_both_lists_must_pass():
    assert find_broken(["a.py::u[1]"], ["a.py::u[1]"], "swe-bench") == {"a.py::u[1]": "skipped"}


@given(
    st.dictionaries(st.text("ab[] ", max_size=5), st.sampled_from(SEVERITY)),
    st.text("ab[] ", max_size=5),
    st.sampled_from(SEVERITY),
)
def test_additional_result_never_improves_a_cut_id(statuses, test, status):
    before = find_status(test, statuses)
    after = find_status(test, {f"{test}a]": status} | statuses)
    assert before == "missing" or SEVERITY.index(after) >= SEVERITY.index(before)
