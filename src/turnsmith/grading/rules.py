"""Which ends of the tests make a patch resolved: a rule for each kind of data set, by `Task.status_rules`.

A rule gives the status of every test that decides. All but `passed` break the patch, so a log that says nothing resolves nothing.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping

from turnsmith.errors import GradingError
from turnsmith.grading.log_parsers.base import SEVERITY, STATUSES, clean
from turnsmith.grading.log_parsers.summary import PATH_AS_OPTION
from turnsmith.grading.testing import CLEAN_STATUSES, MISSING, SuiteReport, holds
from turnsmith.types import Task

UNEXPECTED = "unexpected"
"""The status of a test that passed and must not be there, where a rule asks for exactly the expected tests."""

Rule = Callable[[Task, SuiteReport], dict[str, str]]

_TIMING = re.compile(
    r" ?[\[(]\d[\d.]{0,20} ?(?:ms|s|sec|seconds?)[\])]$|(?: in)? \d[\d.]{0,20} ?(?:ms|s|sec|seconds?)$"
)
_RAN = re.compile(
    r"Executed [1-9]\d{0,9} of |TOTAL: [1-9]\d{0,9} (?:SUCCESS|FAILED)|\b[1-9]\d{0,9} (?:passing|specs?, \d)|"
    r"^Tests:\s{1,20}[1-9]|^# tests [1-9]",
    re.MULTILINE,
)
"""How karma, mocha, jasmine, jest and TAP say that they ran at least one test."""


def judge_by_status(fixed: Collection[str], maintained: Collection[str]) -> Rule:
    """Each expected test, by the statuses that count for FAIL_TO_PASS and for PASS_TO_PASS; one that is nowhere never does."""

    def judge(task: Task, report: SuiteReport) -> dict[str, str]:
        statuses = {test: _status(task, report, test, maintained) for test in task.PASS_TO_PASS}
        return statuses | {test: _status(task, report, test, fixed) for test in task.FAIL_TO_PASS}

    return judge


def _status(task: Task, report: SuiteReport, test: str, counted: Collection[str]) -> str:
    """`passed` for all that holds."""
    status = find_status(test, report.statuses)
    is_held = status in counted or holds(status, task.meta.get(CLEAN_STATUSES, {}).get(test, "passed"))
    return "passed" if is_held else status


def find_status(test: str, statuses: Mapping[str, str]) -> str:
    """The status of an expected test.

    An id may be cut, since some data sets took it to end at the first space: `a.py::t[x` was `a.py::t[x y]`. Of a parameter that
    is a path they may have left the last part alone: `t[/a.py]` was `t[/tmp/x7/a.py]`. Then it is the worst status of all tests
    that it may have been.
    """
    if test in statuses:
        return statuses[test]
    found = [status for name, status in statuses.items() if _may_mean(test, name)]
    return max(found, key=SEVERITY.index, default=MISSING)


def _may_mean(test: str, name: str) -> bool:
    return name.startswith(test) if _is_cut(test) else "[/" in test and PATH_AS_OPTION.sub(r"[/\1]", name) == test


def _is_cut(test: str) -> bool:
    return "[" in test and not test.endswith("]")


def judge_failures(task: Task, report: SuiteReport) -> dict[str, str]:
    """Only a failure breaks an expected test, since the log names no others; but the tests must be seen to have run."""
    ran = bool(report.results) or _RAN.search(report.log) is not None
    seen = {test: find_status(test, report.statuses) for test in [*task.PASS_TO_PASS, *task.FAIL_TO_PASS]}
    return {test: status if status in ("failed", "error") or not ran else "passed" for test, status in seen.items()}


def judge_exact_set(task: Task, report: SuiteReport) -> dict[str, str]:
    """The tests that passed are the expected ones, no more and no fewer; how long a test took is no part of its name."""
    statuses: dict[str, str] = {}
    for name, status in report.statuses.items():
        statuses[strip_timing(name)] = max(status, statuses.get(strip_timing(name), "passed"), key=SEVERITY.index)
    expected = dict.fromkeys(strip_timing(test) for test in [*task.PASS_TO_PASS, *task.FAIL_TO_PASS])
    found = {test: find_status(test, statuses) for test in expected}
    cut = tuple(test for test in expected if _is_cut(test))
    passed = [name for name, status in statuses.items() if status == "passed"]
    extra = [name for name in passed if name not in expected and not (cut and name.startswith(cut))]
    return found | dict.fromkeys(extra, UNEXPECTED)


def strip_timing(name: str) -> str:
    """`adds two [12 ms]`, `adds two (0.1s)` and `adds two in 3 ms` are `adds two`."""
    return _TIMING.sub("", name)


def judge_whole_map(task: Task, report: SuiteReport) -> dict[str, str]:
    """Every test ends as the map of R2E-Gym says, failures too, and no other test ran. Raises GradingError without a map."""
    expected = {name: STATUSES.get(word, word) for name, word in _read_map(task).items()}
    counted = ("passed", "failed", "error")
    seen: dict[str, str] = {}
    for test, status in report.statuses.items():
        if status in counted:
            name = ".".join(test.split("::")[1:]) or test
            seen[name] = max(status, seen.get(name, "passed"), key=SEVERITY.index)
    ends = {name: seen.get(name, MISSING) for name in expected}
    ends = {name: "passed" if status == expected[name] else _describe(status) for name, status in ends.items()}
    return ends | dict.fromkeys(seen.keys() - expected.keys(), UNEXPECTED)


def _describe(status: str) -> str:
    """A pass where a failure is expected is no pass."""
    return UNEXPECTED if status == "passed" else status


def _read_map(task: Task) -> dict[str, str]:
    column = (task.model_extra or {}).get("expected_output_json")
    try:
        found = json.loads(column) if isinstance(column, str) else column
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        raise GradingError(f"{task.instance_id} has no expected_output_json, which the rule r2e-gym compares with")
    return {clean(str(name)): str(word) for name, word in found.items()}


def judge_transitions(task: Task, report: SuiteReport) -> dict[str, str]:
    """Expected tests pass, and none fails that is known to have passed before the patch, as Multi-SWE asks."""
    before = (task.model_extra or {}).get("test_patch_result")
    passed = set(before.get("passed_tests", ())) if isinstance(before, dict) else set()
    broken = {
        name: status for name, status in report.statuses.items() if name in passed and status in ("failed", "error")
    }
    return broken | judge_by_status({"passed"}, {"passed"})(task, report)


RULES: dict[str, Rule] = {
    "strict": judge_by_status({"passed"}, {"passed"}),
    "swe-bench": judge_by_status({"passed", "xfailed"}, {"passed", "xfailed", "skipped"}),
    "swe-bench-fail-only": judge_failures,
    "swe-rebench-v2": judge_exact_set,
    "r2e-gym": judge_whole_map,
    "multi-swe": judge_transitions,
}
"""The code under test can ask to be skipped, or to be expected to fail: this counts only where the data set counted so, too."""
