"""A task where its tree lies and its tests run, and one run of tests on a patch of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turnsmith.rewards.preparing import prepare
from turnsmith.rewards.testing import PYTEST, Suite, SuiteReport, find_test_files, run_suite
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.types import Task


@dataclass(frozen=True)
class Case:
    """A task, where its tree lies, and where its tests run."""

    task: Task
    layers: tuple[Path, ...]
    provider: SandboxProvider
    tests_timeout_s: float

    @property
    def expected(self) -> list[str]:
        return [*self.task.FAIL_TO_PASS, *self.task.PASS_TO_PASS]

    @property
    def directives(self) -> tuple[str, ...]:
        """What the test command gets: SWE-bench's word. Those of the row, or else the files of the expected tests."""
        return tuple(self.task.test_files) or find_test_files(self.expected)

    @property
    def is_sealed(self) -> bool:
        """Can its report be signed, and have sentinels? Suites that are not pytest's have only their log and their exit code."""
        return self.task.log_parser == PYTEST


async def run_tests(
    case: Case, patch: str, files: tuple[str, ...], added: Mapping[str, str], known: Collection[str] = ()
) -> SuiteReport:
    """Run test files on a patch in a pristine sandbox; `added` are files of ours, `known` the ids that are looked for.

    Raises PatchRefused, SandboxError, GradingError.
    """
    task = case.task
    suite = Suite(
        task.test_command, files, task.workdir, task.log_parser, case.tests_timeout_s, frozenset(known), task.image
    )
    ready = partial(prepare, task=task, layers=case.layers, patch=patch, added=added)
    return await run_suite(case.provider, case.layers, suite, ready)
