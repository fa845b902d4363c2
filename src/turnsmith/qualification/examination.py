"""The examination of one task, from the search for copies to the record."""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from turnsmith.audit.expected_tests import read_tests
from turnsmith.audit.mutants import count_guarded
from turnsmith.config import SandboxConfig
from turnsmith.errors import GradingError, SandboxError
from turnsmith.qualification.copies import SystemFiles, look_into_tree
from turnsmith.qualification.failures import find_messages, find_missing_names
from turnsmith.qualification.keys import make_key
from turnsmith.qualification.record import Leak, Passes, Qualification, Verdict
from turnsmith.qualification.repetitions import count_passes, insist, repeat
from turnsmith.qualification.verdicts import FINAL, decide
from turnsmith.rewards.cases import Case
from turnsmith.rewards.preparing import SetupFailed


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
    if not record.verdict.is_final or any(leak.where.startswith("/") for leak in record.leaks):
        return False
    if record.verdict in (Verdict.QUALIFIED, Verdict.NAMES_MISSING):
        is_left_out = criteria.needs_names and bool(record.missing_names)
        return record.repeats >= criteria.repeats and is_left_out is (record.verdict is Verdict.NAMES_MISSING)
    return True


async def examine(case: Case, system: SystemFiles, criteria: Criteria) -> Qualification:
    """Examine one task. What the infrastructure did is named, and never held against the task."""
    key = await asyncio.to_thread(make_key, case.task, case.layers, criteria.sandbox)
    try:
        findings = await _examine(case, system, criteria)
    except SetupFailed as error:
        findings = {"verdict": Verdict.BROKEN_SETUP, "detail": str(error)}
    except (SandboxError, GradingError) as error:
        findings = {"verdict": Verdict.INFRASTRUCTURE, "detail": str(error)}
    return Qualification(instance_id=case.task.instance_id, key=key, isolation=case.provider.isolation, **findings)


async def _examine(case: Case, system: SystemFiles, criteria: Criteria) -> dict[str, Any]:
    """Columns of the record. Raises SetupFailed, SandboxError, GradingError."""
    if leaks := system.find_leaks(case.task) or await insist(partial(look_into_tree, case)):
        return {"verdict": Verdict.LEAKS, "detail": _describe(leaks), "leaks": leaks}
    base, gold, report = await repeat(
        case, criteria.repeats, lambda base, gold: decide(case.task, base, gold).verdict in FINAL
    )
    names = find_missing_names(case.task, find_messages(case.task.FAIL_TO_PASS, report).values())
    decision = decide(case.task, base, gold, names if criteria.needs_names else ())
    passes = {test: Passes(base=count_passes(base, test), gold=count_passes(gold, test)) for test in case.expected}
    return {
        "verdict": decision.verdict,
        "detail": decision.detail,
        "quarantined": list(decision.quarantined),
        "repeats": len(gold),
        "passes": passes,
        "missing_names": names,
        "num_mutated": await insist(partial(count_mutated, case)) if decision.verdict is Verdict.QUALIFIED else 0,
        "gold_s": round(statistics.median(each.duration_s for each in gold), 4),
    }


async def count_mutated(case: Case) -> int:
    """FAIL_TO_PASS functions of which an audit can make a mutant; none where it cannot read them. Raises SandboxError."""
    if not case.is_sealed:
        return 0
    try:
        tests = await read_tests(case)
    except GradingError:
        return 0
    return await asyncio.to_thread(count_guarded, tests.sources, case.task.FAIL_TO_PASS)


def _describe(leaks: Sequence[Leak]) -> str:
    more = f" and {len(leaks) - 1} more" if len(leaks) > 1 else ""
    return f"{leaks[0].kind} in {leaks[0].where}{more}: {leaks[0].what}"
