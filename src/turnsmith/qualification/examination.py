"""Examination of one task: search for copies of its fix, then test runs on the untouched tree and with the gold patch."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from random import SystemRandom
from typing import Any, ParamSpec, TypeVar

from turnsmith.audit.ability import GoldTrial, judge_audit, try_gold
from turnsmith.audit.expected_tests import UnreadableTests, read_tests
from turnsmith.config import SandboxConfig
from turnsmith.errors import GradingError, PluginFailed, SandboxError
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case, run_tests
from turnsmith.grading.grading import PLUGIN, Grader
from turnsmith.grading.judging import judge
from turnsmith.grading.opened_files import find_test_data
from turnsmith.grading.patch_selection import select_gold
from turnsmith.grading.testing import SuiteReport, check_plugin
from turnsmith.qualification.copies import SystemFiles, search_tree
from turnsmith.qualification.failures import find_messages, find_missing_names
from turnsmith.qualification.gold_runs import GoldRuns
from turnsmith.qualification.record import FINAL, Passes, Qualification, Verdict, count_passes, decide, make_key
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.types import Ability, Grade, Outcome

P = ParamSpec("P")
T = TypeVar("T")
MAX_TRIES = 3
MIN_REPEATS = 2
"""Minimum number of repeated test runs: the first in a new interpreter, the second by the grader of training."""
PATIENCE, PATIENCE_S = 10.0, 60.0
"""Time limit of runs on the untouched tree and of mutants: the factor times the gold patch's time, plus the seconds."""


@dataclass(frozen=True)
class Criteria:
    """Settings and criteria of the examination that decides if a task is fit for training."""

    repeats: int = 5
    """Number of test runs on the untouched tree, and of test runs with the gold patch."""
    tests_timeout_s: float = 1_800.0
    """Time limit in seconds of the tests with the gold patch."""
    needs_names: bool = True
    """True to reject tasks whose FAIL_TO_PASS tests all need names that the gold patch adds and the issue does not give."""
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    """Sandbox settings. A verdict holds only for the settings with which it was found."""


def is_settled(record: Qualification, criteria: Criteria) -> bool:
    """Return True if a task with this record need not be examined again under the criteria.

    A task with a leak outside its working tree is examined again, because the machine's files may have changed.
    """
    match record.verdict:
        case Verdict.QUALIFIED:
            is_whole = record.repeats >= criteria.repeats and record.audit is not None
            return is_whole and not (criteria.needs_names and record.missing_names)
        case Verdict.NAMES_MISSING:
            return record.repeats >= criteria.repeats and criteria.needs_names
        case verdict:
            return verdict.is_final and not any(leak.where.startswith("/") for leak in record.leaks)


async def examine(
    case: Case, system: SystemFiles, criteria: Criteria, shared_runs: GoldRuns | None = None
) -> Qualification:
    """Examine one task, sharing gold-patch runs with other tasks if `shared_runs` is given.

    Faults of the infrastructure get the verdict INFRASTRUCTURE.
    """
    key = await asyncio.to_thread(make_key, case.tree, criteria.sandbox)
    try:
        findings = await _examine(case, system, criteria, shared_runs)
    except SetupFailed as error:
        findings = {"verdict": Verdict.BROKEN_SETUP, "detail": str(error)}
    except PluginFailed as error:
        findings = {"verdict": Verdict.UNGRADABLE, "detail": str(error)}
    except (SandboxError, GradingError) as error:
        findings = {"verdict": Verdict.INFRASTRUCTURE, "detail": str(error)}
    return Qualification(
        instance_id=case.task.instance_id,
        key=key,
        sandbox=criteria.sandbox.kind,
        isolation=case.provider.isolation,
        **findings,
    )


async def _examine(case: Case, system: SystemFiles, criteria: Criteria, shared_runs: GoldRuns | None) -> dict[str, Any]:
    """Examine a task; return the fields of its record. Raises SetupFailed, SandboxError, GradingError."""
    if leaks := system.find_leaks(case.task) or await retry(search_tree, case):
        more = f" and {len(leaks) - 1} more" if len(leaks) > 1 else ""
        detail = f"{leaks[0].kind} in {leaks[0].where}{more}: {leaks[0].what}"
        return {"verdict": Verdict.LEAKS, "detail": detail, "leaks": leaks}
    num = max(criteria.repeats, MIN_REPEATS)
    shared = await shared_runs.run(case.task, lambda case: repeat_gold(case, num)) if shared_runs else []
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
        **(await inspect_tests(case, shared_runs, gold_s) if decision.verdict is Verdict.QUALIFIED else {}),
        "gold_s": round(gold_s, 4),
    }


async def retry(attempt: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, up to three times if the infrastructure fails. Raises the last SandboxError or GradingError."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await attempt(*args, **kwargs)
        except (SandboxError, GradingError):
            continue
    return await attempt(*args, **kwargs)


async def repeat(case: Case, num: int, shared: Sequence[Grade] = ()) -> tuple[list[Grade], list[Grade], SuiteReport]:
    """Grade the untouched tree and the gold patch `num` times; return both lists and the untouched tree's first report.

    `shared` holds grades of earlier runs of the gold patch. Runs end early if more of them cannot change the verdict.
    Raises SetupFailed, SandboxError, GradingError.
    """
    left = iter(shared)
    gold = [next(left, None) or await grade_gold(case, is_first=True)]
    limited = shorten_limit(case, gold[0].duration_s)
    report = await retry(run_afresh, limited, is_gold=False)
    base = [to_grade(case, report)]
    while len(gold) < num:
        gold.append(next(left, None) or await grade_gold(case, is_first=False))
        base.append(await retry(grade, limited, is_gold=False))
        if decide(case.task, base, gold).verdict in FINAL:
            break
    return base, gold, report


def shorten_limit(case: Case, gold_s: float) -> Case:
    """Shorten the time limit to a multiple of the gold patch's time, because a bug or mutant may make tests hang."""
    return replace(case, tests_timeout_s=min(case.tests_timeout_s, PATIENCE_S + PATIENCE * gold_s))


async def repeat_gold(case: Case, num: int) -> list[Grade]:
    """Grade the gold patch `num` times, first in a new interpreter. Raises SetupFailed, SandboxError, GradingError."""
    return [await grade_gold(case, is_first=number == 0) for number in range(num)]


async def grade_gold(case: Case, *, is_first: bool) -> Grade:
    """Grade the gold patch: with a new interpreter if `is_first`, else with the grader that training uses."""
    if is_first:
        return to_grade(case, await retry(run_afresh, case, is_gold=True))
    return await retry(grade, case, is_gold=True)


def to_grade(case: Case, report: SuiteReport) -> Grade:
    """Convert the report of a test run to a grade, as the grader does."""
    return judge(case.task, report).model_copy(update={"duration_s": report.duration_s})


async def grade(case: Case, *, is_gold: bool) -> Grade:
    """Grade the gold patch or the untouched tree. Raises GradingError; PluginFailed if the grader's pytest plugin fails."""
    grader = Grader(case.provider, tests_timeout_s=case.tests_timeout_s, num_workers=1)
    found = await (grader.grade(case.tree, case.task.patch) if is_gold else grader.grade_unpatched(case.tree))
    if found.outcome is Outcome.GRADER_FAILED:
        raise (PluginFailed if PLUGIN in found.flags else GradingError)(found.detail)
    return found


async def run_afresh(case: Case, *, is_gold: bool) -> SuiteReport:
    """Run the tests with the gold patch or on the untouched tree, in a new interpreter.

    Raises SandboxError, GradingError, SetupFailed.
    """
    if case.is_sealed and not is_gold:
        # Short tracebacks make pytest say why a file could not be collected.
        command = f"{case.task.test_command} --tb=short"
        case = case.with_task(case.task.model_copy(update={"test_command": command}))
    try:
        patch = select_gold(case.tree) if is_gold else ""
        return check_plugin(await run_tests(case, patch, case.directives, {}, is_cold=True))
    except PatchRefused as refusal:
        raise SetupFailed(f"the gold patch cannot be used: {refusal}") from None


async def inspect_tests(case: Case, shared_runs: GoldRuns | None, gold_s: float) -> dict[str, Any]:
    """Find files that only tests use, and check if audits can reach a verdict. Raises SetupFailed, SandboxError, GradingError."""
    data = await retry(find_test_data, case)
    try:
        return {"audit": await find_ability(case, shared_runs, gold_s), "test_data": data}
    except (SandboxError, GradingError) as error:
        return {"audit_fault": str(error), "test_data": data}


async def find_ability(case: Case, shared_runs: GoldRuns | None, gold_s: float) -> Ability:
    """Find out by runs of the gold patch if audits can reach a verdict. Raises SandboxError, GradingError."""
    if not case.is_sealed:
        return Ability("only suites of pytest can be audited")
    limited = shorten_limit(case, gold_s)
    try:
        trial = await (shared_runs.try_gold(limited.tests_timeout_s, try_audit) if shared_runs else try_audit(limited))
        return judge_audit(await retry(read_tests, case), trial)
    except UnreadableTests as error:
        return Ability(str(error))


async def try_audit(case: Case) -> GoldTrial:
    """Run the tests with the gold patch, first renamed, then with wrong expectations. Raises SandboxError, GradingError."""
    tests, gold = await retry(read_tests, case), select_gold(case.tree)
    return await retry(try_gold, tests, gold, SystemRandom())
