"""A task where its tree lies and its tests run: a pristine sandbox made ready for them, and one run on a patch.

What comes first: set-up commands, a history of one commit, the hidden tests and the grader's own. The patch comes last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from turnsmith.errors import GradingError
from turnsmith.git.patch_policy import PatchRefused, to_bytes
from turnsmith.grading.testing import Suite, SuiteReport, find_test_files, run_suite
from turnsmith.sandboxes.base import Sandbox, SandboxProvider
from turnsmith.sandboxes.setup import SetupFailed, set_up
from turnsmith.types import PYTEST, ExecResult, Task, TaskTree

APPLY = "GIT_DIR=/nonexistent git apply --whitespace=nowarn -"
"""Outside of any repository, so that no configuration, attribute or hook of the tree is read."""
APPLY_TIMEOUT_S = 60.0


GOLD_S = "gold_s"
"""Column of `Task.meta`: seconds that the grading of the gold patch takes."""
GOLD_TIMES, MIN_LIMIT_S = 10.0, 30.0
"""The tests of a patch may take so many times as long as those of the gold patch, and at least so many seconds."""


def limit_tests(task: Task, configured_s: float) -> float:
    """Limit the tests of a patch by the time of the gold patch, where that is known; the configured limit is never exceeded."""
    gold_s = task.meta.get(GOLD_S)
    if not isinstance(gold_s, int | float) or not gold_s > 0:
        return configured_s
    return min(configured_s, max(MIN_LIMIT_S, GOLD_TIMES * gold_s))


@dataclass(frozen=True)
class Case:
    """A task, where its tree lies, and where its tests run."""

    tree: TaskTree
    provider: SandboxProvider
    tests_timeout_s: float

    @property
    def task(self) -> Task:
        return self.tree.task

    def with_task(self, task: Task) -> "Case":
        """Return the case with another record of its task."""
        return replace(self, tree=replace(self.tree, task=task))

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
    case: Case, patch: str, files: tuple[str, ...], added: Mapping[str, str], *, is_cold: bool = False
) -> SuiteReport:
    """Run test files on a patch in a pristine sandbox; `added` are files of ours. `is_cold` asks for a fresh interpreter.

    Raises PatchRefused, SandboxError, GradingError.
    """
    task, known = case.task, frozenset(case.expected)
    suite = Suite(
        task.test_command,
        files,
        task.workdir,
        task.log_parser,
        case.tests_timeout_s,
        known,
        task.image,
        case.tree.environment,
    )
    ready = partial(prepare, case=case, patch=patch, added=added)
    return await run_suite(case.provider, case.tree.layers, suite, ready, is_cold=is_cold)


async def prepare(sandbox: Sandbox, case: Case, patch: str, added: Mapping[str, str]) -> None:
    """Set up, apply the hidden tests, add the grader's own files, and only then apply the patch.

    The test surface is that of the base commit, since no patch brings another here. The patch comes last so that what stands
    in the way of our files, or leaves no room for them, is its own fault.
    Raises PatchRefused, SetupFailed, SandboxError, GradingError.
    """
    await set_up(sandbox, case.tree)
    if fault := await _apply(sandbox, case.task.test_patch):
        raise SetupFailed(f"the test patch of {case.tree.instance_id} does not apply: {fault}")
    try:
        for path, text in added.items():
            await sandbox.write(path, text.encode())
    except OSError as error:
        raise GradingError(f"a test of the grader's own could not be written: {error}") from None
    if fault := await _apply(sandbox, patch):
        raise PatchRefused(f"does not apply: {fault}")


async def _apply(sandbox: Sandbox, patch: str) -> str:
    """Apply a patch to the tree; returns git's complaint, or nothing. Raises SandboxError, GradingError."""
    if not patch:
        return ""
    result = await sandbox.exec(APPLY, timeout_s=APPLY_TIMEOUT_S, stdin=to_bytes(patch))
    complaint = read_complaint(result)
    return complaint.splitlines()[0] if result.exit_code else ""


def read_complaint(result: ExecResult) -> str:
    """Read the output of a program that applies patches. Raises GradingError where it broke off without a verdict on the patch.

    git ends with 128 for patches that it cannot read, and complains in a line with `error:`, maybe after warnings. Any other end
    from 128 on, or below 0, is a signal's or a crash.
    """
    complaint = result.output.decode(errors="replace").strip() or f"git ended with {result.exit_code}"
    if result.timed_out or result.exit_code == 127:
        raise GradingError("git did not answer in the sandbox: is it installed there?")
    is_error = any(line.startswith("error:") for line in complaint.splitlines())
    is_verdict = 0 <= result.exit_code < 128 or (result.exit_code == 128 and is_error)
    if not is_verdict:
        raise GradingError(f"git broke off with {result.exit_code} while it applied the patch: {complaint}")
    return complaint
