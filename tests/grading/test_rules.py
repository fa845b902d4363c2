"""Rules of `Task.status_rules`; a log without results resolves under none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import GradingError
from turnsmith.grading.judging import judge
from turnsmith.grading.log_parsers.base import SEVERITY, TestResult
from turnsmith.grading.rules import RULES, strip_timing
from turnsmith.grading.testing import SuiteReport
from turnsmith.types import Task

NAMES = dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch"), "x")


def make_task(rules, fixed=("f",), maintained=("p",), **columns):
    return Task(
        **NAMES, status_rules=rules, FAIL_TO_PASS=list(fixed), PASS_TO_PASS=list(maintained), layers=["tree"], **columns
    )


def grade(task, log="", exit_code=None, **statuses):
    failed = any(status in ("failed", "error") for status in statuses.values())
    results = {test.replace("__", " "): TestResult(status) for test, status in statuses.items()}
    return judge(task, SuiteReport(results, int(failed) if exit_code is None else exit_code, 0.1, log=log))


def resolves(task, **report):
    return grade(task, **report).resolved


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("log", ["", "Traceback (most recent call last):\n", "0 passing\nExecuted 0 of 0\n"])
@pytest.mark.parametrize("exit_code", [0, 1])
def test_log_without_results_resolves_under_no_rule(rules, log, exit_code):
    task = make_task(rules, expected_output_json={"f": "PASSED"})
    assert not resolves(task, log=log, exit_code=exit_code)
    nothing_expected = make_task(rules, (), (), expected_output_json={"f": "PASSED"})
    assert not resolves(nothing_expected, log=log, exit_code=exit_code)


@pytest.mark.parametrize("rules", RULES)
def test_passed_expected_tests_resolve_under_every_rule(rules):
    task = make_task(rules, expected_output_json={"f": "PASSED", "p": "PASSED"})
    assert resolves(task, f="passed", p="passed")
    assert not resolves(task, f="failed", p="passed")
    assert not resolves(task, f="passed", p="error")


@pytest.mark.parametrize(
    ("log", "ran"), [("12 passing (3s)", True), ("Executed 4 of 4 SUCCESS", True), ("# tests 0", False)]
)
def test_unlisted_test_passes_if_the_log_shows_a_run(log, ran):
    assert resolves(make_task("swe-bench-fail-only"), log=log) is ran


def test_unexpected_failure_does_not_count_under_fail_only():
    assert resolves(make_task("swe-bench-fail-only"), other="failed")
    assert not resolves(make_task("swe-bench-fail-only"), log="3 passing", exit_code=1)


def test_exact_set_allows_no_missing_or_extra_test():
    task = make_task("swe-rebench-v2", ["adds two [12 ms]"], ["a.py::t[x"])
    assert resolves(task, **{"adds two (0.5s)": "passed", "a.py::t[x y]": "passed", "other": "failed"})
    assert grade(task, **{"adds two": "passed", "a.py::t[x]": "passed", "new": "passed"}).statuses == {
        "adds two": "passed", "a.py::t[x": "passed", "new": "unexpected",
    }  # fmt: skip
    assert not resolves(task, **{"adds two": "passed"})
    assert not resolves(task, **{"adds two": "passed", "a.py::t[x]": "xfailed"})


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("a (12 ms)", "a"), ("a [0.5s]", "a"), ("a (1.25 seconds)", "a"), ("a in 3 ms", "a"), ("a 5ms", "a"),
        ("a (12 items)", "a (12 items)"), ("a[12]", "a[12]"), ("sleeps", "sleeps"),
    ],
)  # fmt: skip
def test_timing_is_not_part_of_a_name(name, bare):
    assert strip_timing(name) == bare


EXPECTED = {"test_a": "PASSED", "T.test_b": "FAILED"}


@pytest.mark.parametrize("column", [EXPECTED, json.dumps(EXPECTED)])
@pytest.mark.parametrize(
    ("statuses", "resolved"),
    [
        ({"r/t.py::test_a": "passed", "r/t.py::T::test_b": "failed"}, True),
        ({"r/t.py::test_a": "passed", "r/t.py::T::test_b": "failed", "r/t.py::test_c": "skipped"}, True),
        ({"r/t.py::test_a": "passed", "r/t.py::T::test_b": "passed"}, False),
        ({"r/t.py::test_a": "passed", "r/t.py::T::test_b": "failed", "r/t.py::test_c": "passed"}, False),
        ({"r/t.py::test_a": "passed"}, False),
        ({"r/t.py::test_a": "passed", "s/t.py::test_a": "failed", "r/t.py::T::test_b": "failed"}, False),
    ],
)
def test_whole_map_must_match(column, statuses, resolved):
    assert resolves(make_task("r2e-gym", [], [], expected_output_json=column), **statuses) is resolved


def test_names_of_the_whole_map_are_compared_without_colours():
    task = make_task("r2e-gym", [], [], expected_output_json={"\x1b[1mtest_a\x1b[0m": "PASSED"})
    assert resolves(task, **{"r/t.py::test_a": "passed"})
    assert not resolves(task, **{"r/t.py::test_a": "failed"})


@pytest.mark.parametrize("column", [None, "", "{", "[]", {}])
def test_missing_map_raises_a_grading_error(column):
    with pytest.raises(GradingError, match="expected_output_json"):
        resolves(make_task("r2e-gym", expected_output_json=column), f="passed")


def test_test_that_passed_before_the_patch_must_not_fail():
    task = make_task("multi-swe", test_patch_result={"passed_tests": ["p", "old"]})
    assert resolves(task, f="passed", p="passed", other="failed")
    assert not resolves(task, f="passed", p="passed", old="failed")
    assert resolves(task, f="passed", p="passed", old="skipped")
    assert not resolves(task, f="passed", p="skipped")


@given(st.data())
def test_worse_status_never_resolves_a_patch(data):
    rules = data.draw(st.sampled_from(["strict", "swe-bench", "swe-bench-fail-only", "multi-swe"]))
    statuses = data.draw(st.dictionaries(st.sampled_from("fpq"), st.sampled_from(SEVERITY), min_size=1))
    test = data.draw(st.sampled_from(sorted(statuses)))
    if resolves(make_task(rules), **statuses | {test: "error"}):
        assert resolves(make_task(rules), **statuses)
