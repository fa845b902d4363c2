"""Status rules of data sets: which statuses of tests make a patch resolved. `Task.status_rules` names the rule.

A rule returns the status of every test that counts. The patch is resolved if all of them are `passed`.
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
"""Status of a test that passed but is not expected, under a rule that requires exactly the expected tests."""

Rule = Callable[[Task, SuiteReport], dict[str, str]]

_TIMING = re.compile(
    r" ?[\[(]\d[\d.]{0,20} ?(?:ms|s|sec|seconds?)[\])]$|(?: in)? \d[\d.]{0,20} ?(?:ms|s|sec|seconds?)$"
)
_RAN = re.compile(
    r"Executed [1-9]\d{0,9} of |TOTAL: [1-9]\d{0,9} (?:SUCCESS|FAILED)|\b[1-9]\d{0,9} (?:passing|specs?, \d)|"
    r"^Tests:\s{1,20}[1-9]|^# tests [1-9]",
    re.MULTILINE,
)
"""Pattern of lines that show that a test ran (karma, mocha, jasmine, jest, TAP); `judge_failures` needs one if no test failed."""


def judge_by_status(fixed: Collection[str], maintained: Collection[str]) -> Rule:
    """Make a status rule from the statuses that count as passed for FAIL_TO_PASS, and for PASS_TO_PASS."""

    def judge(task: Task, report: SuiteReport) -> dict[str, str]:
        statuses = {test: _status(task, report, test, maintained) for test in task.PASS_TO_PASS}
        return statuses | {test: _status(task, report, test, fixed) for test in task.FAIL_TO_PASS}

    return judge


def _status(task: Task, report: SuiteReport, test: str, counted: Collection[str]) -> str:
    status = find_status(test, report.statuses)
    is_held = status in counted or holds(status, task.meta.get(CLEAN_STATUSES, {}).get(test, "passed"))
    return "passed" if is_held else status


def find_status(test: str, statuses: Mapping[str, str]) -> str:
    """Find the status of an expected test in a report.

    Some data sets cut ids at the first space (`a.py::t[x`) or cut paths in parameters (`t[/tmp/x7/a.py]` → `t[/a.py]`).
    Such an id gets the worst status of all tests that it may stand for.
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
    """Judge logs that list only failures: a test passed if it is not listed and the log shows that tests ran."""
    ran = bool(report.results) or _RAN.search(report.log) is not None
    seen = {test: find_status(test, report.statuses) for test in [*task.PASS_TO_PASS, *task.FAIL_TO_PASS]}
    return {test: status if status in ("failed", "error") or not ran else "passed" for test, status in seen.items()}


def judge_exact_set(task: Task, report: SuiteReport) -> dict[str, str]:
    """Require that the expected tests passed and no other test did, ignoring timings in names."""
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
    """Remove a timing from a name: `adds two [12 ms]` → `adds two`, `adds two in 3 ms` → `adds two`."""
    return _TIMING.sub("", name)


def judge_whole_map(task: Task, report: SuiteReport) -> dict[str, str]:
    """Require exactly the tests and statuses in R2E-Gym's column `expected_output_json`. Raises GradingError without it."""
    expected = {name: STATUSES.get(word, word) for name, word in _read_map(task).items()}
    counted = ("passed", "failed", "error")
    seen: dict[str, str] = {}
    for test, status in report.statuses.items():
        if status in counted:
            name = ".".join(test.split("::")[1:]) or test
            seen[name] = max(status, seen.get(name, "passed"), key=SEVERITY.index)
    judged: dict[str, str] = {}
    for name, must in expected.items():
        status = seen.get(name, MISSING)
        judged[name] = "passed" if status == must else UNEXPECTED if status == "passed" else status
    return judged | dict.fromkeys(seen.keys() - expected.keys(), UNEXPECTED)


def _read_map(task: Task) -> dict[str, str]:
    column = (task.model_extra or {}).get("expected_output_json")
    try:
        found = json.loads(column) if isinstance(column, str) else column
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        raise GradingError(f"{task.instance_id} has no column expected_output_json, which the rule r2e-gym needs")
    return {clean(str(name)): str(word) for name, word in found.items()}


def judge_transitions(task: Task, report: SuiteReport) -> dict[str, str]:
    """Require, as Multi-SWE does, that expected tests pass, and that no test fails that passed before the patch."""
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
"""Name of a status rule → rule. Skips and expected failures count as passed only where the data set counts them so."""
