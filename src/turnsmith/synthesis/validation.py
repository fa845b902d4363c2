"""A bug makes a task only if, of the tests that pass without it, at least one fails with it and at least one still passes."""

import asyncio
import shutil
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from turnsmith.rewards.testing import Suite, SuiteReport, holds, run_suite
from turnsmith.sandboxes.base import SandboxProvider

KEPT = "kept"


class Layered(Protocol):
    """Anything that lies on disk as layers, the last of which is its own."""

    @property
    def layers(self) -> tuple[Path, ...]: ...


L = TypeVar("L", bound=Layered)


@dataclass(frozen=True)
class Validation:
    """What became of one candidate."""

    reason: str
    """`kept`, or why not."""
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    report: SuiteReport

    @property
    def kept(self) -> bool:
        return self.reason == KEPT


@dataclass
class Tally:
    """How many candidates were tried, and what became of them."""

    reasons: Counter[str] = field(default_factory=Counter)
    suite_s: float = 0.0
    """Seconds of the suite on the clean tree."""

    @property
    def num_tried(self) -> int:
        return self.reasons.total()

    @property
    def num_kept(self) -> int:
        return self.reasons[KEPT]

    def to_json(self) -> dict[str, Any]:
        return {"num_tried": self.num_tried, "reasons": dict(self.reasons), "suite_s": round(self.suite_s, 3)}


async def validate(
    provider: SandboxProvider,
    suite: Suite,
    before: SuiteReport,
    candidates: Iterable[L],
    *,
    num_wanted: int,
    num_workers: int = 2,
    on_verdict: Callable[[L, Validation], None] = lambda candidate, verdict: None,
) -> tuple[list[tuple[L, Validation]], Tally]:
    """Take candidates, `num_workers` at a time, until enough are kept or none is left; the layers of the others are removed.

    What is kept depends on the order of the candidates alone, not on which suite ends first.
    """
    suite = replace(suite, known=frozenset(before.passing))
    waiting, running = iter(candidates), deque[tuple[L, asyncio.Task[SuiteReport]]]()
    kept: list[tuple[L, Validation]] = []
    tally = Tally(suite_s=before.duration_s)
    try:
        while len(kept) < num_wanted:
            _fill(running, waiting, num_workers, lambda candidate: run_suite(provider, candidate.layers, suite))
            if not running:
                break
            candidate, run = running[0]
            verdict = compare_suites(before, await run)
            running.popleft()
            tally.reasons[verdict.reason] += 1
            on_verdict(candidate, verdict)
            if verdict.kept:
                kept.append((candidate, verdict))
            else:
                shutil.rmtree(candidate.layers[-1])
    finally:
        await _abandon(running)
    return kept, tally


def _fill(
    running: deque[tuple[L, asyncio.Task[SuiteReport]]],
    waiting: Iterator[L],
    num_workers: int,
    run: Callable[[L], Coroutine[None, None, SuiteReport]],
) -> None:
    """Start suites until `num_workers` are running."""
    for candidate in islice(waiting, num_workers - len(running)):
        running.append((candidate, asyncio.create_task(run(candidate))))


async def _abandon(running: Iterable[tuple[L, asyncio.Task[SuiteReport]]]) -> None:
    """End suites that nobody waits for and remove their layers."""
    for candidate, run in running:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        shutil.rmtree(candidate.layers[-1], ignore_errors=True)


def compare_suites(before: SuiteReport, after: SuiteReport) -> Validation:
    """Compare the suite without and with the bug; a test that did not pass before cannot be what the bug breaks."""
    pass_to_pass = [test for test in before.passing if holds(after.status(test), before.status(test))]
    fail_to_pass = [test for test in before.with_status("passed") if after.status(test) != "passed"]
    return Validation(_reason(after, fail_to_pass, pass_to_pass), fail_to_pass, pass_to_pass, after)


def _reason(after: SuiteReport, fail_to_pass: list[str], pass_to_pass: list[str]) -> str:
    if after.timed_out:
        return "too slow"
    if not fail_to_pass:
        return "no test fails"
    if not pass_to_pass:
        return "no test passes"
    return KEPT
