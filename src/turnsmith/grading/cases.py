"""Run of a task's tests on a patch in a new sandbox.

The sandbox gets, in this order: set-up commands, a git history of one commit, hidden tests, the grader's tests, the patch.
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
"""Command that applies a patch without regard to git settings, attributes and hooks in the tree."""
APPLY_TIMEOUT_S = 60.0

GOLD_S = "gold_s"
"""Column of `Task.meta`: seconds that grading the gold patch took; `limit_tests` computes other patches' time limit from it."""
GOLD_TIMES, MIN_LIMIT_S = 10.0, 30.0
"""Time limit of a patch's tests as a multiple of the gold patch's time, and its minimum in seconds."""


def limit_tests(task: Task, configured_s: float) -> float:
    """Compute the time limit of a patch's tests from the gold patch's time, if known; at most the configured limit."""
    gold_s = task.meta.get(GOLD_S)
    if not isinstance(gold_s, int | float) or not gold_s > 0:
        return configured_s
    return min(configured_s, max(MIN_LIMIT_S, GOLD_TIMES * gold_s))


@dataclass(frozen=True)
class Case:
    """Task with its working tree, and the sandbox provider and time limit of its tests."""

    tree: TaskTree
    provider: SandboxProvider
    tests_timeout_s: float

    @property
    def task(self) -> Task:
        return self.tree.task

    def with_task(self, task: Task) -> "Case":
        """Return a copy of the case with another task on the same tree."""
        return replace(self, tree=replace(self.tree, task=task))

    @property
    def expected(self) -> list[str]:
        return [*self.task.FAIL_TO_PASS, *self.task.PASS_TO_PASS]

    @property
    def directives(self) -> tuple[str, ...]:
        """Return the arguments of the test command: the task's `test_files` or, if empty, the files of its expected tests."""
        return tuple(self.task.test_files) or find_test_files(self.expected)

    @property
    def is_sealed(self) -> bool:
        """Return True if the tests run with pytest, whose report can be signed. Other suites have only a log and an exit code."""
        return self.task.log_parser == PYTEST


async def run_tests(
    case: Case, patch: str, files: tuple[str, ...], added: Mapping[str, str], *, is_cold: bool = False
) -> SuiteReport:
    """Run test files on a patch in a new sandbox.

    `added` maps paths to texts of the grader's files. With `is_cold` pytest starts in a new interpreter.

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
    """Set up a sandbox, apply the hidden tests, add the grader's files, then apply the patch.

    The patch comes last, so that a conflict with the grader's files is a fault of the patch.
    Raises PatchRefused, SetupFailed, SandboxError, GradingError.
    """
    await set_up(sandbox, case.tree)
    if fault := await _apply(sandbox, case.task.test_patch):
        raise SetupFailed(f"the test patch of {case.tree.instance_id} does not apply: {fault}")
    try:
        for path, text in added.items():
            await sandbox.write(path, text.encode())
    except OSError as error:
        raise GradingError(f"a test file of the grader could not be written to the sandbox: {error}") from None
    if fault := await _apply(sandbox, patch):
        raise PatchRefused(f"does not apply: {fault}")


async def _apply(sandbox: Sandbox, patch: str) -> str:
    """Apply a patch to the tree and return git's error message; empty on success. Raises SandboxError, GradingError."""
    if not patch:
        return ""
    result = await sandbox.exec(APPLY, timeout_s=APPLY_TIMEOUT_S, stdin=to_bytes(patch))
    complaint = read_complaint(result)
    return complaint.splitlines()[0] if result.exit_code else ""


def read_complaint(result: ExecResult) -> str:
    """Read the error message of a program that applies patches. Raises GradingError if it crashed or was killed.

    git exits with 128 and prints a line with `error:` for patches that it cannot read. Any other exit code from 128 on, or
    below 0, means a signal or a crash.
    """
    complaint = result.output.decode(errors="replace").strip() or f"git ended with {result.exit_code}"
    if result.timed_out or result.exit_code == 127:
        raise GradingError("git printed nothing in the sandbox: install git in the image or on this machine")
    is_error = any(line.startswith("error:") for line in complaint.splitlines())
    is_verdict = 0 <= result.exit_code < 128 or (result.exit_code == 128 and is_error)
    if not is_verdict:
        raise GradingError(f"git ended with {result.exit_code} while it applied the patch: {complaint}")
    return complaint
