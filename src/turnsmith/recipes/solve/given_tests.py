"""A test command that a person gave, run on a patch: there is no list of expected tests, so the command itself decides.

What of a patch has a say over the tests is left out, as the grader leaves it out: files that decide how tests run, and tests. A
plain pytest command is sealed and must come to its end; of any other the exit code is all there is.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case, prepare
from turnsmith.grading.commands import read_plain
from turnsmith.grading.import_shadowing import find_import_roots
from turnsmith.grading.patch_selection import Project, select_hunks
from turnsmith.grading.testing import TEST_ENV, Suite, SuiteReport, run_suite
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.types import Record, TaskTree

NUM_LINES = 15
"""Last lines of the output that are kept."""


class TestRun(Record):
    """What the command did."""

    __test__ = False

    passed: bool
    exit_code: int | None = None
    """None where it did not run, or ran out of time."""
    reason: str = ""
    """Why it does not count as passed; empty where it does."""
    lines: tuple[str, ...] = ()
    """The last that it printed."""
    left_out: tuple[str, ...] = ()
    """Files of the patch that were left out, each with what it is to the tests."""
    is_sealed: bool = False
    """Was it pytest, with a report that the code under test cannot write?"""
    duration_s: float = 0.0


@dataclass(frozen=True)
class GivenTests:
    """A command, and where its tree lies."""

    command: str
    tree: TaskTree
    provider: SandboxProvider
    timeout_s: float

    async def run(self, patch: str) -> TestRun:
        """Run it in a pristine sandbox, on the patch or the empty one. Raises SandboxError, GradingError."""
        started_at = time.monotonic()
        try:
            selection = select_hunks(patch, self.project)
            left_out = tuple(f"{kind}: {path}" for kind, path in selection.left_out)
            if patch and not selection.patch:
                done = TestRun(passed=False, reason="nothing was changed but what is left out")
            else:
                done = await (self._run_sealed if read_plain(self.command) else self._run_plain)(selection.patch)
        except PatchRefused as refusal:
            return TestRun(passed=False, reason=f"the patch is refused: {refusal}")
        return done.model_copy(update={"left_out": left_out, "duration_s": time.monotonic() - started_at})

    @property
    def project(self) -> Project:
        """What is known of the tree."""
        return Project(self.tree.layers, frozenset(), import_roots=find_import_roots(self.command, self.tree.layers))

    async def _run_sealed(self, patch: str) -> TestRun:
        task, environment = self.tree.task, self.tree.environment
        suite = Suite(
            self.command, (), task.workdir, timeout_s=self.timeout_s, image=task.image, environment=environment
        )
        ready = partial(prepare, case=self._case, patch=patch, added={})
        report = await run_suite(self.provider, self.tree.layers, suite, ready)
        reason = find_reason(report)
        exit_code = None if report.timed_out else report.exit_code
        lines = last_lines(report.log)
        return TestRun(passed=not reason, exit_code=exit_code, reason=reason, lines=lines, is_sealed=True)

    async def _run_plain(self, patch: str) -> TestRun:
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
    """Why a sealed run does not count as passed; empty where it does."""
    if report.timed_out:
        return f"it took longer than {report.duration_s:.0f} s"
    if report.exit_code:
        return f"exit code {report.exit_code}"
    if not report.is_finished or not report.sealed or report.sealed.is_forged or not report.agrees:
        return "exit code 0, but pytest did not come to its end, or its report does not agree"
    return "" if report.passing else "exit code 0, but no test passed"


def last_lines(output: str) -> tuple[str, ...]:
    """The last that are not empty."""
    return tuple(line for line in output.splitlines() if line.strip())[-NUM_LINES:]


async def check_command(tests: GivenTests) -> Sequence[str]:
    """What a person should know of the command before anything is tried. Raises UsageError, SandboxError, GradingError."""
    before = await tests.run("")
    if before.passed:
        return ["the tests pass on the checkout as it is, so passing says nothing of the issue"]
    if before.exit_code in (126, 127):
        reason = " ".join(before.lines[-1:])
        raise UsageError(f"--tests {tests.command!r} cannot be run in the sandbox ({reason}): give one that is there")
    return []
