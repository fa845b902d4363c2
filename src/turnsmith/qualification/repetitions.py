"""One run of a task's tests, by a fresh interpreter or by the grader as it grades; what fails for no reason is tried again."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from turnsmith.errors import GradingError, SandboxError
from turnsmith.qualification.failures import find_message
from turnsmith.rewards.cases import Case
from turnsmith.rewards.grading import Grader
from turnsmith.rewards.judging import judge
from turnsmith.rewards.patches import PatchRefused
from turnsmith.rewards.preparing import SetupFailed, prepare
from turnsmith.rewards.projects import select_gold
from turnsmith.rewards.testing import Suite, SuiteReport, run_suite_cold
from turnsmith.types import Grade, Outcome

T = TypeVar("T")
MAX_TRIES = 3
EXPLAINING = " --tb=short"
"""What makes pytest say why a file could not be collected."""


@dataclass(frozen=True)
class Repetition:
    """What one run showed."""

    statuses: dict[str, str]
    """Of each expected test; `passed` for all that holds."""
    is_resolved: bool
    duration_s: float
    timed_out: bool = False
    detail: str = ""
    messages: dict[str, str] = field(default_factory=dict)
    """FAIL_TO_PASS test → what pytest says of it; only of a run by a fresh interpreter on the untouched tree."""


async def insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again what fails for another reason than the tests. Raises the last SandboxError or GradingError."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await attempt()
        except (SandboxError, GradingError):
            continue
    return await attempt()


async def grade(case: Case, grader: Grader, *, is_gold: bool) -> Repetition:
    """A grading like any other, of nobody's making shared. Raises GradingError, SetupFailed."""
    grader.forget()
    task, layers = case.task, case.layers
    verdict = await (grader.grade(task, layers, task.patch) if is_gold else grader.grade_unpatched(task, layers))
    if verdict.outcome is Outcome.GRADER_FAILED:
        raise GradingError(verdict.detail)
    if verdict.outcome is Outcome.PATCH_INVALID:
        raise SetupFailed(f"the gold patch is refused: {verdict.detail}")
    return _note(verdict, verdict.duration_s)


async def run_afresh(case: Case, *, is_gold: bool) -> Repetition:
    """The same tests by a fresh interpreter, judged as in a grading. Raises SandboxError, GradingError, SetupFailed."""
    task = case.task
    files, known = case.directives, frozenset(case.expected)
    suite = Suite(task.test_command, files, task.workdir, task.log_parser, case.tests_timeout_s, known, task.image)
    report = await _run(case, suite, is_gold=is_gold)
    noted = _note(judge(task, report), report.duration_s)
    return noted if is_gold else replace(noted, messages=await explain(case, suite, report))


def _note(verdict: Grade, duration_s: float) -> Repetition:
    """What a verdict says of the run behind it."""
    return Repetition(
        statuses=verdict.statuses,
        is_resolved=verdict.resolved,
        duration_s=duration_s,
        timed_out=verdict.outcome is Outcome.TESTS_TIMED_OUT,
        detail=verdict.detail,
    )


async def explain(case: Case, suite: Suite, report: SuiteReport) -> dict[str, str]:
    """What is said of each FAIL_TO_PASS test; where nothing is, as of a file not collected, pytest is asked again."""
    messages = {test: find_message(test, report) for test in case.task.FAIL_TO_PASS}
    if all(messages.values()) or not suite.is_pytest or report.timed_out:
        return messages
    again = await _run(case, replace(suite, command=suite.command + EXPLAINING), is_gold=False)
    return {test: message or find_message(test, again) for test, message in messages.items()}


async def _run(case: Case, suite: Suite, *, is_gold: bool) -> SuiteReport:
    """Run a suite in a sandbox of its own. Raises SandboxError, GradingError, SetupFailed."""
    patch = _select_gold(case) if is_gold else ""
    prepared = partial(prepare, task=case.task, layers=case.layers, patch=patch, added={})
    try:
        return await run_suite_cold(case.provider, case.layers, suite, prepared)
    except PatchRefused as refusal:
        raise SetupFailed(f"the gold patch {refusal}") from None


def _select_gold(case: Case) -> str:
    """The gold patch as it would be graded. Raises SetupFailed."""
    try:
        return select_gold(case.task, case.layers)
    except PatchRefused as refusal:
        raise SetupFailed(f"the gold patch is refused: {refusal}") from None
    except GradingError as error:
        raise SetupFailed(str(error)) from None


def count_passes(repetitions: Sequence[Repetition], test: str) -> int:
    """In how many runs did a test pass?"""
    return sum(repetition.statuses.get(test) == "passed" for repetition in repetitions)
