"""A bug makes a task only if, of the tests that pass without it, at least one fails with it and at least one still passes."""

import asyncio
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from turnsmith.rewards.testing import CLEAN_STATUSES, Suite, SuiteReport, holds, run_suite
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.candidates import Candidate
from turnsmith.synthesis.issues import write_issue
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Task

KEPT = "kept"


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


async def validate(
    provider: SandboxProvider,
    suite: Suite,
    before: SuiteReport,
    candidates: Iterable[Candidate],
    *,
    num_wanted: int,
    num_workers: int = 2,
    on_verdict: Callable[[Validation], None] = lambda verdict: None,
) -> tuple[list[tuple[Candidate, Validation]], Counter[str]]:
    """Try candidates, `num_workers` at a time, until enough are kept; returns those, and what became of all by reason.

    What is kept depends on the order of the candidates alone. The layers of the others are removed.
    """
    suite = replace(suite, known=frozenset(before.passing))
    waiting, running = iter(candidates), deque[tuple[Candidate, asyncio.Task[SuiteReport]]]()
    kept, reasons = list[tuple[Candidate, Validation]](), Counter[str]()
    try:
        while len(kept) < num_wanted:
            for candidate in islice(waiting, num_workers - len(running)):
                running.append((candidate, asyncio.create_task(run_suite(provider, candidate.layers, suite))))
            if not running:
                break
            candidate, run = running[0]
            verdict = compare_suites(before, await run)
            running.popleft()
            reasons[verdict.reason] += 1
            on_verdict(verdict)
            if verdict.kept:
                kept.append((candidate, verdict))
            else:
                shutil.rmtree(candidate.layer)
    finally:
        await _abandon(running)
    return kept, reasons


async def _abandon(running: Iterable[tuple[Candidate, asyncio.Task[SuiteReport]]]) -> None:
    """End suites that nobody waits for and remove their layers."""
    for candidate, run in running:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        shutil.rmtree(candidate.layer, ignore_errors=True)


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
    return KEPT if pass_to_pass else "no test passes"


def to_task(
    candidate: Candidate,
    verdict: Validation,
    before: SuiteReport,
    suite: Suite,
    *,
    vagueness: float,
    created_by: str,
    meta: Mapping[str, Any],
) -> Task:
    """The task of a candidate that was kept, given the suite on the clean tree; `vagueness` is that of the issue text."""
    mutation, repository = candidate.mutation, candidate.repository
    expected = [*verdict.fail_to_pass, *verdict.pass_to_pass]
    known_failures = before.with_status("failed", "error")
    return Task(
        instance_id=candidate.instance_id,
        repo=repository.name,
        base_commit=candidate.base_commit,
        problem_statement=write_issue(verdict.report, vagueness=vagueness, known_failures=known_failures),
        FAIL_TO_PASS=verdict.fail_to_pass,
        PASS_TO_PASS=verdict.pass_to_pass,
        patch=make_patch(candidate.path, mutation.apply(), mutation.source),
        layers=[layer.relative_to(repository.folder).as_posix() for layer in candidate.layers],
        workdir=suite.workdir,
        test_command=suite.command,
        log_parser=suite.parser,
        created_by=created_by,
        meta={
            "family": mutation.family,
            "mutator": mutation.name,
            "path": candidate.path,
            "function": mutation.function,
            "line": mutation.line,
            CLEAN_STATUSES: {test: before.status(test) for test in expected if before.status(test) != "passed"},
            **meta,
        },
    )
