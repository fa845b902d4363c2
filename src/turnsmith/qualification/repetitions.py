"""Runs of a task's tests, the first by a fresh interpreter, the rest as the grader grades; accidents are tried again."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from turnsmith.errors import GradingError, SandboxError
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
MIN_REPEATS = 2
"""One run by a fresh interpreter, one by the grader."""
BASE_PATIENCE, BASE_PATIENCE_S = 10.0, 60.0
"""The untouched tree may take so many times as long as the gold patch, and so much longer: a bug that hangs is not waited for."""
EXPLAINING = " --tb=short"
"""What makes pytest say why a file could not be collected."""


async def insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again what fails for another reason than the tests. Raises the last SandboxError or GradingError."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await attempt()
        except (SandboxError, GradingError):
            continue
    return await attempt()


async def repeat(
    case: Case, num: int, is_enough: Callable[[Sequence[Grade], Sequence[Grade]], bool]
) -> tuple[list[Grade], list[Grade], SuiteReport]:
    """Grades of the untouched tree and of the gold patch, and the first report of the untouched tree.

    After MIN_REPEATS runs of each `is_enough` is asked. Raises SetupFailed, SandboxError, GradingError.
    """
    gold = [to_grade(case, await insist(partial(run_afresh, case, is_gold=True)))]
    patience_s = min(case.tests_timeout_s, BASE_PATIENCE_S + BASE_PATIENCE * gold[0].duration_s)
    hurried = replace(case, tests_timeout_s=patience_s)
    report = await insist(partial(run_afresh, hurried, is_gold=False))
    base = [to_grade(case, report)]
    while len(gold) < max(num, MIN_REPEATS) and not (len(gold) == MIN_REPEATS and is_enough(base, gold)):
        gold.append(await insist(partial(grade, case, is_gold=True)))
        base.append(await insist(partial(grade, hurried, is_gold=False)))
    return base, gold, report


async def grade(case: Case, *, is_gold: bool) -> Grade:
    """A grading like any other. Raises GradingError."""
    grader = Grader(case.provider, tests_timeout_s=case.tests_timeout_s, num_workers=1)
    task, layers = case.task, case.layers
    verdict = await (grader.grade(task, layers, task.patch) if is_gold else grader.grade_unpatched(task, layers))
    if verdict.outcome is Outcome.GRADER_FAILED:
        raise GradingError(verdict.detail)
    return verdict


def to_grade(case: Case, report: SuiteReport) -> Grade:
    return judge(case.task, report).model_copy(update={"duration_s": report.duration_s})


async def run_afresh(case: Case, *, is_gold: bool) -> SuiteReport:
    """The same tests by a fresh interpreter in a sandbox of its own. Raises SandboxError, GradingError, SetupFailed."""
    task, known = case.task, frozenset(case.expected)
    command = task.test_command + (EXPLAINING if case.is_sealed and not is_gold else "")
    suite = Suite(command, case.directives, task.workdir, task.log_parser, case.tests_timeout_s, known, task.image)
    try:
        patch = select_gold(task, case.layers) if is_gold else ""
        ready = partial(prepare, task=task, layers=case.layers, patch=patch, added={})
        return await run_suite_cold(case.provider, case.layers, suite, ready)
    except PatchRefused as refusal:
        raise SetupFailed(f"the gold patch cannot be used: {refusal}") from None


def count_passes(grades: Sequence[Grade], test: str) -> int:
    """In how many runs did a test pass?"""
    return sum(each.statuses.get(test) == "passed" for each in grades)
