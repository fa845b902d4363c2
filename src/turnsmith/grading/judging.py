"""Verdict on a patch from the report of its test run.

A patch is resolved if three conditions hold. Every expected test passed. The exit code, the log and the signed report
agree. Every sentinel test has its known status.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from turnsmith.grading.rules import RULES, find_status
from turnsmith.grading.sentinels import Sentinels
from turnsmith.grading.testing import SuiteReport
from turnsmith.types import Grade, Outcome, Task

SENTINEL, CHANNELS, FORGED = "sentinel", "channels", "forged-report"
"""Flags of a grade: wrong status of a sentinel, contradicting exit code and reports, unsigned line in the report."""


def judge(task: Task, report: SuiteReport, sentinels: Sentinels | None = None) -> Grade:
    """Grade a report by the task's status rules, and look for tampering. Raises GradingError.

    A skip or an expected failure counts as passed only if the test ended in the same way on the tree without the bug.
    """
    if report.timed_out:
        return Grade(
            outcome=Outcome.TESTS_TIMED_OUT, detail=f"the tests ran longer than their limit of {report.limit_s:.0f} s"
        )
    known = sentinels.statuses if sentinels else {}
    results = {test: result for test, result in report.results.items() if test not in known}
    statuses = RULES[task.status_rules](task, replace(report, results=results))
    if not statuses:
        return Grade(outcome=Outcome.UNRESOLVED, detail="no test is expected, and none was seen")
    broken = [test for test, status in statuses.items() if status != "passed"]
    if found := dict(_find_tampering(report, sentinels, statuses, is_broken=bool(broken))):
        return Grade(outcome=Outcome.TAMPERED, statuses=statuses, flags=[*found], detail="; ".join(found.values()))
    if broken:
        return Grade(outcome=Outcome.UNRESOLVED, statuses=statuses, detail=_describe(broken, statuses))
    return Grade(outcome=Outcome.RESOLVED, statuses=statuses)


def _find_tampering(
    report: SuiteReport, sentinels: Sentinels | None, statuses: dict[str, str], *, is_broken: bool
) -> Iterator[tuple[str, str]]:
    """Yield flag and description of each kind of tampering. If tests fail (`is_broken`), sentinels count only if passed."""
    if report.sealed and report.sealed.is_forged:
        yield FORGED, "something wrote to the descriptor of the report"
    if sentinels and (falsified := sentinels.find_falsified(report, only_flattering=is_broken)):
        yield SENTINEL, falsified[0]
    tests = [*statuses, *(sentinels.statuses if sentinels else [])]
    if not is_broken and (difference := _find_difference(report, tests)):
        yield CHANNELS, difference


def _find_difference(report: SuiteReport, tests: Sequence[str]) -> str:
    """Describe the difference between exit code, log and signed report; empty if they agree."""
    if not report.agrees:
        return f"exit code {report.exit_code} does not agree with the log"
    if not report.sealed:
        return ""
    for test in tests:
        logged, reported = (find_status(test, statuses) for statuses in (report.statuses, report.sealed.statuses))
        if logged != reported:
            return f"{test} is {logged} in the log, {reported} in the report"
    return ""


def _describe(broken: Sequence[str], statuses: dict[str, str]) -> str:
    first = f"{broken[0]} {statuses[broken[0]]}"
    return f"{len(broken)} of {len(statuses)} expected tests do not pass: {first}" + (", …" if len(broken) > 1 else "")
