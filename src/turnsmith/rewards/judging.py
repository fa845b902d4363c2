"""From what a run of the tests left to a verdict; pure functions.

Resolved is only what three channels say alike: the exit code, the log, the report over the descriptor; where every expected test
is seen to hold; and where the grader's own tests ended as they must.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from turnsmith.rewards.logparse import SEVERITY
from turnsmith.rewards.sentinels import Sentinels
from turnsmith.rewards.testing import CLEAN_STATUSES, MISSING, SuiteReport, holds
from turnsmith.types import Grade, Outcome, Task

SENTINEL, CHANNELS, FORGED = "sentinel", "channels", "forged-report"
"""Flags of a report that lied."""

RULES = {
    "strict": ({"passed"}, {"passed"}),
    "swe-bench": ({"passed", "xfailed"}, {"passed", "xfailed", "skipped"}),
}
"""Statuses that count for FAIL_TO_PASS and for PASS_TO_PASS; a test that is nowhere never does.

The code under test can ask to be skipped, or to be expected to fail, so this counts only where the data set counted so, too.
"""


def judge(task: Task, report: SuiteReport, sentinels: Sentinels | None = None) -> Grade:
    """Resolved only if every expected test is seen to hold and nobody was seen to lie.

    A test that is skipped, or expected to fail, holds only where the maker saw the same on the clean tree and recorded it.
    """
    if report.timed_out:
        return Grade(outcome=Outcome.TESTS_TIMED_OUT, detail=f"the tests ran longer than {report.duration_s:.0f} s")
    fixed, maintained = RULES[task.status_rules]
    statuses = {test: _status(task, report, test, maintained) for test in task.PASS_TO_PASS}
    statuses |= {test: _status(task, report, test, fixed) for test in task.FAIL_TO_PASS}
    broken = [test for test, status in statuses.items() if status != "passed"]
    if lies := dict(_find_lies(report, sentinels, statuses, is_broken=bool(broken))):
        return Grade(outcome=Outcome.TAMPERED, statuses=statuses, flags=[*lies], detail="; ".join(lies.values()))
    if broken:
        return Grade(outcome=Outcome.UNRESOLVED, statuses=statuses, detail=_describe(broken, statuses))
    return Grade(outcome=Outcome.RESOLVED, statuses=statuses)


def _status(task: Task, report: SuiteReport, test: str, counted: Collection[str]) -> str:
    """`passed` for all that holds."""
    status = find_status(test, report.statuses)
    is_held = status in counted or holds(status, task.meta.get(CLEAN_STATUSES, {}).get(test, "passed"))
    return "passed" if is_held else status


def find_status(test: str, statuses: Mapping[str, str]) -> str:
    """The status of an expected test.

    An id may be cut, since some data sets took it to end at the first space: `a.py::t[x` was `a.py::t[x y]`. Then it is the worst
    status of all tests that it may have been.
    """
    is_cut = "[" in test and not test.endswith("]")
    if test in statuses or not is_cut:
        return statuses.get(test, MISSING)
    found = [status for name, status in statuses.items() if name.startswith(test)]
    return max(found, key=SEVERITY.index, default=MISSING)


def _find_lies(
    report: SuiteReport, sentinels: Sentinels | None, statuses: dict[str, str], *, is_broken: bool
) -> Iterator[tuple[str, str]]:
    """Flags, and what was seen. A patch may break everything, sentinels too; only what flatters it is a lie then."""
    if report.sealed and report.sealed.is_forged:
        yield FORGED, "something wrote to the descriptor of the report"
    if sentinels and (bent := sentinels.find_bent(report, only_flattering=is_broken)):
        yield SENTINEL, bent[0]
    tests = [*statuses, *(sentinels.statuses if sentinels else [])]
    if not is_broken and (difference := _find_difference(report, tests)):
        yield CHANNELS, difference


def _find_difference(report: SuiteReport, tests: Sequence[str]) -> str:
    """How the channels disagree; empty where they do not."""
    if not report.agrees:
        return f"exit code {report.exit_code} does not agree with the log"
    if not report.sealed:
        return ""
    for test in tests:
        logged, told = (find_status(test, statuses) for statuses in (report.statuses, report.sealed.statuses))
        if logged != told:
            return f"{test} is {logged} in the log, {told} in the report"
    return ""


def _describe(broken: Sequence[str], statuses: dict[str, str]) -> str:
    first = f"{broken[0]} {statuses[broken[0]]}"
    return f"{len(broken)} of {len(statuses)} expected tests do not pass: {first}" + (", …" if len(broken) > 1 else "")
