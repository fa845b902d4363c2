"""Verdict on a task from the grades of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.qualification.record import Verdict
from turnsmith.types import Grade, Outcome, Task

FINAL = (Verdict.GOLD_FAILS, Verdict.NO_OP_PASSES, Verdict.TOO_SLOW)
"""Verdicts that further runs cannot improve."""


@dataclass(frozen=True)
class Decision:
    """Verdict with its reason."""

    verdict: Verdict
    detail: str = ""
    quarantined: tuple[str, ...] = ()


def decide(task: Task, base: Sequence[Grade], gold: Sequence[Grade], missing_names: Sequence[str] = ()) -> Decision:
    """Decide by the grades of the untouched tree and the gold patch, and by missing names if given."""
    decision = _judge_gold(task, gold) or _judge_base(task, base) or _judge_rest(task, base, gold)
    if decision.verdict is Verdict.QUALIFIED and missing_names:
        return Decision(Verdict.NAMES_MISSING, ", ".join(missing_names), decision.quarantined)
    return decision


def _judge_gold(task: Task, gold: Sequence[Grade]) -> Decision | None:
    if all(run.outcome is Outcome.TESTS_TIMED_OUT for run in gold):
        return Decision(Verdict.TOO_SLOW, f"the gold patch ran out of time in all of {len(gold)} runs")
    never = [test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS] if not count_passes(gold, test)]
    if never:
        return Decision(Verdict.GOLD_FAILS, _name(never, "never passes with the gold patch"))
    tampered = [run for run in gold if not run.resolved and set(run.statuses.values()) == {"passed"}]
    if tampered:
        verdict = Verdict.GOLD_FAILS if len(tampered) >= len(gold) - 1 else Verdict.FLAKY
        return Decision(verdict, f"in {len(tampered)} of {len(gold)} runs: {tampered[0].detail}")
    flaky = [test for test in task.FAIL_TO_PASS if count_passes(gold, test) < len(gold)]
    return Decision(Verdict.FLAKY, _count(flaky, gold, "with the gold patch")) if flaky else None


def _judge_base(task: Task, base: Sequence[Grade]) -> Decision | None:
    passing = [test for test in task.FAIL_TO_PASS if count_passes(base, test)]
    if not passing:
        return None
    if always := [test for test in passing if count_passes(base, test) == len(base)]:
        return Decision(Verdict.NO_OP_PASSES, _name(always, "passes on the untouched tree"))
    return Decision(Verdict.FLAKY, _count(passing, base, "on the untouched tree"))


def _judge_rest(task: Task, base: Sequence[Grade], gold: Sequence[Grade]) -> Decision:
    """Quarantine unsteady PASS_TO_PASS tests."""
    flaky = [test for test in task.PASS_TO_PASS if 0 < count_passes(base, test) < len(base)]
    unsteady = tuple(test for test in task.PASS_TO_PASS if test in flaky or count_passes(gold, test) < len(gold))
    if unsteady and len(unsteady) == len(task.PASS_TO_PASS):
        return Decision(Verdict.FLAKY, "no PASS_TO_PASS test is steady", unsteady)
    detail = f"{len(unsteady)} PASS_TO_PASS tests in quarantine" if unsteady else ""
    return Decision(Verdict.QUALIFIED, detail, unsteady)


def _name(tests: Sequence[str], what: str) -> str:
    more = f" ({len(tests)} such tests)" if len(tests) > 1 else ""
    return f"{tests[0]} {what}{more}"


def _count(tests: Sequence[str], runs: Sequence[Grade], where: str) -> str:
    return f"{tests[0]} passes in {count_passes(runs, tests[0])} of {len(runs)} runs {where}"


def count_passes(grades: Sequence[Grade], test: str) -> int:
    """Count the runs in which a test passed."""
    return sum(each.statuses.get(test) == "passed" for each in grades)
