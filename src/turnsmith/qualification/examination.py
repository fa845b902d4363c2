"""The examination of one task, from the leak scan to the record."""

import asyncio
import hashlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import GradingError, SandboxError
from turnsmith.qualification.copies import SystemFiles, look_into_tree
from turnsmith.qualification.digests import digest_layer
from turnsmith.qualification.failures import find_missing_names, name_class
from turnsmith.qualification.record import VERSION, Cost, Leak, Passes, Qualification, Verdict
from turnsmith.qualification.repetitions import (
    Repetition,
    count_passes,
    grade,
    insist,
    run_afresh,
)
from turnsmith.qualification.verdicts import FINAL, Decision, decide
from turnsmith.rewards.cases import Case
from turnsmith.rewards.grading import Grader
from turnsmith.rewards.preparing import SetupFailed
from turnsmith.sandboxes.runtime import required_distributions
from turnsmith.types import Task

MIN_REPEATS = 2
"""One run by a fresh interpreter, one by the grader."""
BASE_PATIENCE, BASE_PATIENCE_S = 10.0, 60.0
"""The untouched tree may take so many times as long as the gold patch, and so much longer: a bug that hangs is not waited for."""


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


def make_key(task: Task, layers: Sequence[Path], sandbox: SandboxConfig) -> str:
    """Digest of all that a verdict rests on: the row, the layers, what the sandboxes run, hide and are made of, we."""
    runtime = _name_runtime(tuple(sandbox.test_plugins))
    digests = [digest_layer(layer.resolve()) for layer in layers]
    parts = [
        f"{VERSION} {runtime} {sandbox.kind}",
        sandbox.image,
        *sorted(sandbox.hidden),
        task.model_dump_json(),
        *digests,
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _name_runtime(plugins: tuple[str, ...]) -> str:
    """Versions of Python, of pytest, of plugins that tasks may ask for, and of all that these require."""
    distributions = required_distributions("pytest", *plugins)
    versions = [f"{distribution.name}=={distribution.version}" for distribution in distributions]
    return " ".join([f"{sys.version_info.major}.{sys.version_info.minor}", *versions])


def is_settled(record: Qualification, criteria: Criteria) -> bool:
    """Would another examination under these criteria find nothing new?

    What a sandbox shows around the tree may have changed, and is always looked at again.
    """
    leaks_outside = any(leak.where.startswith("/") for leak in record.leaks)
    if not record.verdict.is_final or leaks_outside:
        return False
    if record.verdict in (Verdict.QUALIFIED, Verdict.NAMES_MISSING):
        is_left_out = criteria.needs_names and bool(record.missing_names)
        return record.repeats >= criteria.repeats and is_left_out is (record.verdict is Verdict.NAMES_MISSING)
    return True


async def examine(case: Case, system: SystemFiles, criteria: Criteria) -> Qualification:
    """Examine one task. What the infrastructure did is named, and never held against the task."""
    task, layers = case.task, case.layers
    known = Qualification(
        instance_id=task.instance_id,
        key=await asyncio.to_thread(make_key, task, layers, criteria.sandbox),
        verdict=Verdict.INFRASTRUCTURE,
        machine=system.machine,
    )
    try:
        if leaks := await find_leaks(case, system):
            return known.model_copy(update={"verdict": Verdict.LEAKS, "detail": _name(leaks), "leaks": leaks})
        base, gold = await repeat(case, criteria)
    except SetupFailed as error:
        return known.model_copy(update={"verdict": Verdict.BROKEN_SETUP, "detail": str(error)})
    except (SandboxError, GradingError) as error:
        return known.model_copy(update={"detail": str(error)})
    names = find_missing_names(task, base[0].messages.values())
    decision = decide(task, base, gold, names if criteria.needs_names else ())
    return _record(known.model_copy(update={"missing_names": names}), case, decision, base, gold)


async def find_leaks(case: Case, system: SystemFiles) -> list[Leak]:
    """Those outside of the tree, or else those in it. Raises SetupFailed, SandboxError."""
    return system.find_leaks(case.task) or await insist(partial(look_into_tree, case))


async def repeat(case: Case, criteria: Criteria) -> tuple[list[Repetition], list[Repetition]]:
    """Runs of the untouched tree and of the gold patch, the first of each by a fresh interpreter; no more than can matter.

    Raises SetupFailed, SandboxError, GradingError.
    """
    gold = [await insist(partial(run_afresh, case, is_gold=True))]
    patience_s = BASE_PATIENCE_S + BASE_PATIENCE * gold[0].duration_s
    hurried = replace(case, tests_timeout_s=min(case.tests_timeout_s, patience_s))
    base = [await insist(partial(run_afresh, hurried, is_gold=False))]
    graders = [Grader(each.provider, tests_timeout_s=each.tests_timeout_s, num_workers=1) for each in (case, hurried)]
    while len(gold) < max(criteria.repeats, MIN_REPEATS) and not _is_hopeless(case.task, base, gold):
        gold.append(await insist(partial(grade, case, graders[0], is_gold=True)))
        base.append(await insist(partial(grade, hurried, graders[1], is_gold=False)))
    return base, gold


def _is_hopeless(task: Task, base: Sequence[Repetition], gold: Sequence[Repetition]) -> bool:
    """Have both ways of running said the same of a broken task?"""
    return len(gold) == MIN_REPEATS and decide(task, base, gold).verdict in FINAL


def _record(
    known: Qualification, case: Case, decision: Decision, base: Sequence[Repetition], gold: Sequence[Repetition]
) -> Qualification:
    return known.model_copy(
        update={
            "verdict": decision.verdict,
            "detail": decision.detail,
            "repeats": len(gold),
            "passes": {
                test: Passes(base=count_passes(base, test), gold=count_passes(gold, test)) for test in case.expected
            },
            "quarantined": list(decision.quarantined),
            "failures": {test: name_class(message) for test, message in base[0].messages.items()},
            "cost": Cost(
                gold_s=round(statistics.median(run.duration_s for run in gold), 4),
                base_s=round(statistics.median(run.duration_s for run in base), 4),
            ),
        }
    )


def _name(leaks: Sequence[Leak]) -> str:
    more = f" and {len(leaks) - 1} more" if len(leaks) > 1 else ""
    return f"{leaks[0].kind} in {leaks[0].where}{more}: {leaks[0].what}"
