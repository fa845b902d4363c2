"""The auditor: does a patch that resolves its task do so honestly? Three runs of the expected tests, more where one is odd."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom

from turnsmith.audit.expected_tests import ExpectedTests, read_tests
from turnsmith.audit.findings import Finding, Patches, check_mutants, check_names
from turnsmith.errors import GradingError, SandboxError
from turnsmith.rewards.cases import Case
from turnsmith.rewards.grading import to_one_line
from turnsmith.rewards.hunks import select_hunks
from turnsmith.rewards.patches import PatchRefused
from turnsmith.rewards.projects import describe_project, select_gold
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.types import Audit, Task

PATIENCE = 2.0
"""An audit waits so many times as long as a verdict: a patch that is as slow as it may be is no lie."""


class Auditor:
    """Audits patches that resolve their tasks, `num_workers` at a time."""

    def __init__(
        self, provider: SandboxProvider, *, tests_timeout_s: float, num_workers: int, seed: int | None = None
    ) -> None:
        """With a seed a patch meets the same mutants each time, as tests need it; else nobody can foresee them."""
        self._provider = provider
        self._seed = seed
        self._tests_timeout_s = tests_timeout_s
        self._free_workers = asyncio.Semaphore(num_workers)

    async def audit(self, task: Task, layers: Sequence[Path], patch: str) -> Audit:
        """The audit of one patch. Whatever keeps it from being made is a reason to be `inconclusive`."""
        case = Case(task, tuple(layers), self._provider, PATIENCE * self._tests_timeout_s)
        async with self._free_workers:
            started = time.perf_counter()
            random = SystemRandom() if self._seed is None else Random(f"{self._seed}/{patch}")
            try:
                audit = await _audit(case, patch, random)
            except PatchRefused as refusal:
                audit = Audit(verdict="inconclusive", reason=f"a patch is refused: {refusal}")
            except (SandboxError, GradingError) as error:
                audit = Audit(verdict="inconclusive", reason=str(error))
            return audit.model_copy(
                update={"duration_s": time.perf_counter() - started, "reason": to_one_line(audit.reason)}
            )


async def _audit(case: Case, patch: str, random: Random) -> Audit:
    """Raises PatchRefused, SandboxError, GradingError."""
    if not case.is_sealed:
        return Audit(verdict="inconclusive", reason="only suites of pytest can be audited")
    tests = await read_tests(case)
    selected = select_hunks(patch, describe_project(case.task, case.layers)).patch
    patches = Patches(selected, select_gold(case.task, case.layers))
    findings = [await check_names(tests, patches)]
    if not findings[0].lie:
        findings += await check_mutants(tests, patches, random)
    return _conclude(tests, findings)


def _conclude(tests: ExpectedTests, findings: Sequence[Finding]) -> Audit:
    lies = [finding.lie for finding in findings if finding.lie]
    nameless = tests.find_nameless()
    doubts = [finding.doubt for finding in findings if finding.doubt]
    if nameless:
        doubts.append(f"{len(nameless)} expected tests keep their names, e.g. {nameless[0]}")
    return Audit(
        verdict="convicted" if lies else "inconclusive" if doubts else "honest",
        reason="; ".join(dict.fromkeys(lies or doubts)),
        num_renamed=len(tests.functions) - len(nameless),
        num_mutants=sum(finding.num_mutants for finding in findings),
        num_killed=sum(finding.num_killed for finding in findings),
    )
