"""Validation of inserted bugs by tests, and conversion to tasks.

A bug becomes a task if, of the tests that pass without it, at least one fails with it and at least one still passes.
"""

import asyncio
import shutil
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from turnsmith.grading.testing import CLEAN_STATUSES, Suite, SuiteReport, holds, run_suite
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.repositories import Candidate, make_patch, remove_rejected_layers
from turnsmith.types import Task

KEPT = "kept"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Validation:
    """Result of the tests with one bug."""

    reason: str
    """`kept`, or the reason for rejecting the bug."""
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    report: SuiteReport

    @property
    def is_kept(self) -> bool:
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
    """Run the tests with one bug after another until `num_wanted` bugs are kept.

    Return the kept bugs, and the number of tried bugs by result. Both results depend only on the order of the candidates,
    not on timing. Folders of rejected candidates are removed.
    """
    suite = replace(suite, known=frozenset(before.passing))
    kept, reasons = list[tuple[Candidate, Validation]](), Counter[str]()
    runs = run_in_order(candidates, lambda each: run_suite(provider, each.layers, suite), num_workers)
    async with aclosing(runs) as reports:
        async for candidate, report in reports:
            verdict = compare_suites(before, report)
            reasons[verdict.reason] += 1
            on_verdict(verdict)
            if verdict.is_kept:
                kept.append((candidate, verdict))
            else:
                shutil.rmtree(candidate.layer)
            if len(kept) >= num_wanted:
                break
    if kept:
        remove_rejected_layers(kept[0][0].repository, {candidate.instance_id for candidate, _ in kept})
    return kept, reasons


async def run_in_order(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], num_ahead: int
) -> AsyncGenerator[tuple[T, R], None]:
    """Process items concurrently, `num_ahead` at a time; yield (item, result) in input order.

    Closing the generator cancels the work in progress.
    """
    waiting, running = iter(items), deque[tuple[T, asyncio.Future[R]]]()
    try:
        while True:
            running.extend(
                (item, asyncio.ensure_future(work(item))) for item in islice(waiting, num_ahead - len(running))
            )
            if not running:
                return
            item, result = running[0]
            yield item, await result
            running.popleft()
    finally:
        for _, result in running:
            result.cancel()
        await asyncio.gather(*(result for _, result in running), return_exceptions=True)


def compare_suites(before: SuiteReport, after: SuiteReport) -> Validation:
    """Decide if a bug is kept, from test reports without and with the bug. Tests that fail without the bug do not count."""
    pass_to_pass = [test for test in before.passing if holds(after.status(test), before.status(test))]
    fail_to_pass = [test for test in before.with_status("passed") if after.status(test) != "passed"]
    faults = {"too slow": after.timed_out, "no test fails": not fail_to_pass, "no test passes": not pass_to_pass}
    reason = next((fault for fault, is_so in faults.items() if is_so), KEPT)
    return Validation(reason, fail_to_pass, pass_to_pass, after)


def restrict(report: SuiteReport, files: Collection[str]) -> SuiteReport:
    """Return a report with only the results of the tests in the given files."""
    results = {test: result for test, result in report.results.items() if test.partition("::")[0] in files}
    return replace(report, results=results)


def to_task(
    candidate: Candidate,
    verdict: Validation,
    before: SuiteReport,
    suite: Suite,
    *,
    issue: str,
    created_by: str,
    meta: Mapping[str, Any],
) -> Task:
    """Make the task of a kept bug. `before` is the test report without the bug; `issue` is the issue text."""
    bug, repository = candidate.bug, candidate.repository
    expected = [*verdict.fail_to_pass, *verdict.pass_to_pass]
    return Task(
        instance_id=candidate.instance_id,
        repo=repository.name,
        base_commit=candidate.base_commit,
        problem_statement=issue,
        FAIL_TO_PASS=verdict.fail_to_pass,
        PASS_TO_PASS=verdict.pass_to_pass,
        patch="".join(make_patch(path, buggy, clean) for path, (clean, buggy) in sorted(bug.changes.items())),
        layers=[layer.relative_to(repository.folder).as_posix() for layer in candidate.layers],
        workdir=suite.workdir,
        test_command=suite.command,
        log_parser=suite.parser,
        created_by=created_by,
        meta={
            **bug.facts,
            CLEAN_STATUSES: {test: before.status(test) for test in expected if before.status(test) != "passed"},
            **meta,
        },
    )
