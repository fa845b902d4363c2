"""The examination of one task: the search for copies, then its tests over and over, the first time by a fresh interpreter."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import SystemRandom
from typing import Any, TypeVar

from turnsmith.audit.ability import GoldTrial, judge_audit, try_gold
from turnsmith.audit.expected_tests import UnreadableTests, read_tests
from turnsmith.config import SandboxConfig
from turnsmith.errors import GradingError, PluginFailed, SandboxError
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case, run_tests
from turnsmith.grading.grading import PLUGIN, Grader
from turnsmith.grading.judging import judge
from turnsmith.grading.patch_selection import select_gold
from turnsmith.grading.readings import find_test_data
from turnsmith.grading.testing import SuiteReport, check_plugin
from turnsmith.qualification.copies import SystemFiles, look_into_tree
from turnsmith.qualification.failures import find_messages, find_missing_names
from turnsmith.qualification.gold_runs import Cure
from turnsmith.qualification.record import Passes, Qualification, Verdict, make_key
from turnsmith.qualification.verdicts import FINAL, count_passes, decide
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.types import Ability, Grade, Outcome

T = TypeVar("T")
MAX_TRIES = 3
MIN_REPEATS = 2
"""One run by a fresh interpreter, one by the grader."""
PATIENCE, PATIENCE_S = 10.0, 60.0
"""The untouched tree, and mutants, may take so many times as long as the gold patch, and so much longer."""


@dataclass(frozen=True)
class Criteria:
    """What is asked of a task, and where."""

    repeats: int = 5
    """Runs of the untouched tree and of the gold patch, each."""
    tests_timeout_s: float = 1_800.0
    """Seconds that the tests may take with the gold patch."""
    needs_names: bool = True
    """Are tasks left out whose FAIL_TO_PASS tests all fail for want of a name?"""
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    """What the sandboxes are, since a verdict holds for their like only."""


def is_settled(record: Qualification, criteria: Criteria) -> bool:
    """Would another examination under these criteria find nothing new?

    What a sandbox shows around the tree may have changed, and is always looked at again.
    """
    match record.verdict:
        case Verdict.QUALIFIED:
            is_whole = record.repeats >= criteria.repeats and record.audit is not None
            return is_whole and not (criteria.needs_names and record.missing_names)
        case Verdict.NAMES_MISSING:
            return record.repeats >= criteria.repeats and criteria.needs_names
        case verdict:
            return verdict.is_final and not any(leak.where.startswith("/") for leak in record.leaks)


async def examine(case: Case, system: SystemFiles, criteria: Criteria, cure: Cure | None = None) -> Qualification:
    """Examine one task, whose runs of the gold patch may be those of its cure.

    What the infrastructure did is named, and never held against the task.
    """
    key = await asyncio.to_thread(make_key, case.tree, criteria.sandbox)
    try:
        findings = await _examine(case, system, criteria, cure)
    except SetupFailed as error:
        findings = {"verdict": Verdict.BROKEN_SETUP, "detail": str(error)}
    except PluginFailed as error:
        findings = {"verdict": Verdict.UNGRADABLE, "detail": str(error)}
    except (SandboxError, GradingError) as error:
        findings = {"verdict": Verdict.INFRASTRUCTURE, "detail": str(error)}
    return Qualification(instance_id=case.task.instance_id, key=key, isolation=case.provider.isolation, **findings)


async def _examine(case: Case, system: SystemFiles, criteria: Criteria, cure: Cure | None) -> dict[str, Any]:
    """Columns of the record. Raises SetupFailed, SandboxError, GradingError."""
    if leaks := system.find_leaks(case.task) or await insist(partial(look_into_tree, case)):
        more = f" and {len(leaks) - 1} more" if len(leaks) > 1 else ""
        detail = f"{leaks[0].kind} in {leaks[0].where}{more}: {leaks[0].what}"
        return {"verdict": Verdict.LEAKS, "detail": detail, "leaks": leaks}
    num = max(criteria.repeats, MIN_REPEATS)
    shared = await cure.run(case.task, partial(repeat_gold, num=num)) if cure else []
    base, gold, report = await repeat(case, num, shared)
    names = find_missing_names(case.task, find_messages(case.task.FAIL_TO_PASS, report).values())
    decision = decide(case.task, base, gold, names if criteria.needs_names else ())
    gold_s = statistics.median(each.duration_s for each in gold)
    return {
        "verdict": decision.verdict,
        "detail": decision.detail,
        "quarantined": list(decision.quarantined),
        "repeats": len(gold),
        "passes": {
            each: Passes(base=count_passes(base, each), gold=count_passes(gold, each)) for each in case.expected
        },
        "missing_names": names,
        **(await look_into_tests(case, cure, gold_s) if decision.verdict is Verdict.QUALIFIED else {}),
        "gold_s": round(gold_s, 4),
    }


async def insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again what fails for another reason than the tests. Raises the last SandboxError or GradingError."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await attempt()
        except (SandboxError, GradingError):
            continue
    return await attempt()


async def repeat(case: Case, num: int, shared: Sequence[Grade] = ()) -> tuple[list[Grade], list[Grade], SuiteReport]:
    """Grades of the untouched tree and of the gold patch, and the first report of the untouched tree.

    What is shared of the gold patch's is not run. Two runs of each are enough for a verdict that more would not better.
    Raises SetupFailed, SandboxError, GradingError.
    """
    left = iter(shared)
    gold = [next(left, None) or await grade_afresh(case)]
    hurried = hurry(case, gold[0].duration_s)
    report = await insist(partial(run_untouched_afresh, hurried))
    base = [to_grade(case, report)]
    while len(gold) < num:
        gold.append(next(left, None) or await grade_again(case))
        base.append(await insist(partial(grade_untouched, hurried)))
        if decide(case.task, base, gold).verdict in FINAL:
            break
    return base, gold, report


def hurry(case: Case, gold_s: float) -> Case:
    """Give the case less time for its tests: a bug that hangs, or a mutant, is not waited for."""
    return replace(case, tests_timeout_s=min(case.tests_timeout_s, PATIENCE_S + PATIENCE * gold_s))


async def repeat_gold(case: Case, num: int) -> list[Grade]:
    """Grades of the gold patch, the first by a fresh interpreter. Raises SetupFailed, SandboxError, GradingError."""
    return [await grade_afresh(case), *[await grade_again(case) for _ in range(num - 1)]]


async def grade_afresh(case: Case) -> Grade:
    """The gold patch by a fresh interpreter. Raises SetupFailed, SandboxError, GradingError."""
    return to_grade(case, await insist(partial(run_gold_afresh, case)))


async def grade_again(case: Case) -> Grade:
    """The gold patch as the grader would have it. Raises SandboxError, GradingError."""
    return await insist(partial(grade_gold, case))


def to_grade(case: Case, report: SuiteReport) -> Grade:
    """What the grader would say of a report."""
    return judge(case.task, report).model_copy(update={"duration_s": report.duration_s})


async def grade_gold(case: Case) -> Grade:
    """A grading of the gold patch like any other. Raises GradingError."""
    return insist_on_verdict(await make_grader(case).grade(case.tree, case.task.patch))


async def grade_untouched(case: Case) -> Grade:
    """A grading of the untouched tree like any other. Raises GradingError."""
    return insist_on_verdict(await make_grader(case).grade_unpatched(case.tree))


def make_grader(case: Case) -> Grader:
    """One that grades as the case is run."""
    return Grader(case.provider, tests_timeout_s=case.tests_timeout_s, num_workers=1)


def insist_on_verdict(grade: Grade) -> Grade:
    """Return the grade, unless the grader failed. Raises GradingError."""
    if grade.outcome is Outcome.GRADER_FAILED:
        raise (PluginFailed if PLUGIN in grade.flags else GradingError)(grade.detail)
    return grade


async def run_gold_afresh(case: Case) -> SuiteReport:
    """The same tests with the gold patch, by a fresh interpreter in a sandbox of its own.

    Raises SandboxError, GradingError, SetupFailed.
    """
    try:
        patch = select_gold(case.tree)
        return check_plugin(await run_tests(case, patch, case.directives, {}, is_cold=True))
    except PatchRefused as refusal:
        raise SetupFailed(f"the gold patch cannot be used: {refusal}") from None


async def run_untouched_afresh(case: Case) -> SuiteReport:
    """The same on the untouched tree. Raises SandboxError, GradingError, SetupFailed."""
    if case.is_sealed:
        # Short tracebacks make pytest say why a file could not be collected.
        command = f"{case.task.test_command} --tb=short"
        case = case.with_task(case.task.model_copy(update={"test_command": command}))
    return check_plugin(await run_tests(case, "", case.directives, {}, is_cold=True))


async def look_into_tests(case: Case, cure: Cure | None, gold_s: float) -> dict[str, Any]:
    """Find the columns of a task that is qualified. Raises SetupFailed, SandboxError, GradingError."""
    data = await insist(partial(find_test_data, case))
    try:
        return {"audit": await find_ability(case, cure, gold_s), "test_data": data}
    except (SandboxError, GradingError) as error:
        return {"audit_fault": str(error), "test_data": data}


async def find_ability(case: Case, cure: Cure | None, gold_s: float) -> Ability:
    """Find the ability of the task's audit by runs of the gold patch. Raises SandboxError, GradingError."""
    if not case.is_sealed:
        return Ability("only suites of pytest can be audited")
    hurried = hurry(case, gold_s)
    try:
        trial = await (cure.try_gold(hurried.tests_timeout_s, try_audit) if cure else try_audit(hurried))
        return judge_audit(await insist(partial(read_tests, case)), trial)
    except UnreadableTests as error:
        return Ability(str(error))


async def try_audit(case: Case) -> GoldTrial:
    """Try the gold patch under random names and with mutants that nobody can foresee. Raises SandboxError, GradingError."""
    tests, gold = await insist(partial(read_tests, case)), select_gold(case.tree)
    return await insist(partial(try_gold, tests, gold, SystemRandom()))
