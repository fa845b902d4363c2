"""From what the runs showed to the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.qualification.record import Verdict
from turnsmith.qualification.repetitions import Repetition, count_passes
from turnsmith.types import Task

HOPELESS = (Verdict.GOLD_FAILS, Verdict.NO_OP_PASSES, Verdict.TOO_SLOW)
"""Verdicts that further runs do not better."""


@dataclass(frozen=True)
class Settled:
    """A verdict and what it rests on."""

    verdict: Verdict
    detail: str = ""
    quarantined: tuple[str, ...] = ()


def settle(
    task: Task, base: Sequence[Repetition], gold: Sequence[Repetition], missing_names: Sequence[str] = ()
) -> Settled:
    """The verdict on runs of the untouched tree and of the gold patch; missing names count where they are given."""
    settled = _settle_gold(task, gold) or _settle_base(task, base) or _settle_rest(task, base, gold)
    if settled.verdict is Verdict.QUALIFIED and missing_names:
        return Settled(Verdict.NAMES_MISSING, ", ".join(missing_names), settled.quarantined)
    return settled


def _settle_gold(task: Task, gold: Sequence[Repetition]) -> Settled | None:
    """What is wrong with the gold patch, if anything."""
    if all(run.timed_out for run in gold):
        return Settled(Verdict.TOO_SLOW, f"the gold patch ran out of time in all of {len(gold)} runs")
    never = [test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS] if not count_passes(gold, test)]
    if never:
        return Settled(Verdict.GOLD_FAILS, _name(never, "never passes with the gold patch"))
    lied = [run for run in gold if not run.is_resolved and set(run.statuses.values()) == {"passed"}]
    if lied:
        verdict = Verdict.GOLD_FAILS if len(lied) >= len(gold) - 1 else Verdict.FLAKY
        return Settled(verdict, f"in {len(lied)} of {len(gold)} runs: {lied[0].detail}")
    flaky = [test for test in task.FAIL_TO_PASS if count_passes(gold, test) < len(gold)]
    return Settled(Verdict.FLAKY, _count(flaky, gold, "with the gold patch")) if flaky else None


def _settle_base(task: Task, base: Sequence[Repetition]) -> Settled | None:
    """What is wrong with the untouched tree, if anything."""
    passing = [test for test in task.FAIL_TO_PASS if count_passes(base, test)]
    if not passing:
        return None
    if always := [test for test in passing if count_passes(base, test) == len(base)]:
        return Settled(Verdict.NO_OP_PASSES, _name(always, "passes on the untouched tree"))
    return Settled(Verdict.FLAKY, _count(passing, base, "on the untouched tree"))


def _settle_rest(task: Task, base: Sequence[Repetition], gold: Sequence[Repetition]) -> Settled:
    """Put PASS_TO_PASS tests that are not steady in quarantine, one by one."""
    shaky = tuple(
        test
        for test in task.PASS_TO_PASS
        if count_passes(gold, test) < len(gold) or 0 < count_passes(base, test) < len(base)
    )
    if shaky and len(shaky) == len(task.PASS_TO_PASS):
        return Settled(Verdict.FLAKY, "no PASS_TO_PASS test is steady", shaky)
    detail = f"{len(shaky)} PASS_TO_PASS tests in quarantine" if shaky else ""
    return Settled(Verdict.QUALIFIED, detail, shaky)


def _name(tests: Sequence[str], what: str) -> str:
    more = f" ({len(tests)} such tests)" if len(tests) > 1 else ""
    return f"{tests[0]} {what}{more}"


def _count(tests: Sequence[str], runs: Sequence[Repetition], where: str) -> str:
    return f"{tests[0]} passes in {count_passes(runs, tests[0])} of {len(runs)} runs {where}"
