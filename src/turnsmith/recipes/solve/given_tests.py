"""Test command of the user. It alone decides if a patch passes, since no list of expected tests exists.

Test files, and files that decide how tests run, are left out of the patch. A plain pytest command must run to its
end; its report is protected from the tested code. For any other command, only the exit code counts.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case, prepare, run_tests
from turnsmith.grading.commands import read_plain
from turnsmith.grading.import_shadowing import find_import_roots
from turnsmith.grading.patch_selection import Project, select_files
from turnsmith.grading.testing import TEST_ENV, SuiteReport
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.types import Record, TaskTree

NUM_LINES = 15
"""Number of last output lines of the test command that are kept."""


class TestRun(Record):
    """Result of one run of the test command."""

    __test__ = False

    passed: bool
    exit_code: int | None = None
    """Exit code of the command; None if it did not run or timed out."""
    reason: str = ""
    """Reason why the tests failed; empty if they passed."""
    lines: tuple[str, ...] = ()
    """Last lines of the command's output."""
    left_out: tuple[str, ...] = ()
    """Files of the patch that were not applied for the tests, with the class of the file: `test-surface: tests/test_a.py`."""
    is_sealed: bool = False
    """True if pytest ran the tests and its report was protected from the tested code."""
    duration_s: float = 0.0


@dataclass(frozen=True)
class GivenTests:
    """Test command of the user, with the task tree and the sandbox provider to run it."""

    command: str
    tree: TaskTree
    provider: SandboxProvider
    timeout_s: float

    async def run(self, patch: str) -> TestRun:
        """Run the test command on a patch in a new sandbox. Raises SandboxError, GradingError."""
        started_at = time.monotonic()
        try:
            selection = select_files(patch, self.project)
            left_out = tuple(f"{kind}: {path}" for kind, path in selection.left_out)
            if patch and not selection.patch:
                done = TestRun(passed=False, reason="the patch changes only files that are left out")
            else:
                done = await (self._run_pytest if read_plain(self.command) else self._run_command)(selection.patch)
        except PatchRefused as refusal:
            return TestRun(passed=False, reason=f"the patch is refused: {refusal}")
        return done.model_copy(update={"left_out": left_out, "duration_s": time.monotonic() - started_at})

    @property
    def project(self) -> Project:
        """Return the facts about the checkout, e.g. its import roots, by which files of a patch are applied or left out."""
        return Project(self.tree.layers, frozenset(), import_roots=find_import_roots(self.command, self.tree.layers))

    async def _run_pytest(self, patch: str) -> TestRun:
        task = self.tree.task.model_copy(update={"test_command": self.command})
        report = await run_tests(self._case.with_task(task), patch, (), {})
        reason = find_reason(report)
        exit_code = None if report.timed_out else report.exit_code
        lines = last_lines(report.log)
        return TestRun(passed=not reason, exit_code=exit_code, reason=reason, lines=lines, is_sealed=True)

    async def _run_command(self, patch: str) -> TestRun:
        async with started(self.provider, SandboxSpec.of(self.tree)) as sandbox:
            await prepare(sandbox, self._case, patch, {})
            result = await sandbox.exec(self.command, timeout_s=self.timeout_s, env=TEST_ENV)
        lines = last_lines(result.output.decode(errors="replace"))
        if result.timed_out:
            return TestRun(passed=False, reason=f"it took longer than {self.timeout_s:g} s", lines=lines)
        reason = f"exit code {result.exit_code}" if result.exit_code else ""
        return TestRun(passed=not reason, exit_code=result.exit_code, reason=reason, lines=lines)

    @property
    def _case(self) -> Case:
        return Case(self.tree, self.provider, self.timeout_s)


def find_reason(report: SuiteReport) -> str:
    """Return the reason why a pytest run failed; empty if it passed."""
    if report.timed_out:
        return f"it took longer than {report.duration_s:.0f} s"
    if report.exit_code:
        return f"exit code {report.exit_code}"
    if not report.is_finished or not report.sealed or report.sealed.is_forged or not report.agrees:
        return "exit code 0, but pytest did not run to its end, or its report does not match"
    return "" if report.passing else "exit code 0, but no test passed"


def last_lines(output: str) -> tuple[str, ...]:
    """Return the last lines of an output, without empty lines."""
    return tuple(line for line in output.splitlines() if line.strip())[-NUM_LINES:]


async def check_command(tests: GivenTests) -> Sequence[str]:
    """Run the test command on the unchanged checkout. Return a warning if the tests already pass.

    Raises UsageError if the command cannot run, SandboxError, GradingError.
    """
    before = await tests.run("")
    if before.passed:
        return ["the tests pass on the checkout without changes, so they do not test the issue"]
    if before.exit_code in (126, 127):
        reason = " ".join(before.lines[-1:])
        raise UsageError(
            f"--tests {tests.command!r} cannot be run in the sandbox ({reason}): give a command that exists there"
        )
    return []
