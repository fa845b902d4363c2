"""The verdict on a patch: a pristine sandbox, the patch without its say over the tests, the tests, strict agreement.

The sandbox where the agent lived is never used. What the agent caused scores 0; what the infrastructure caused is GRADER_FAILED.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from turnsmith.errors import GradingError, SandboxError
from turnsmith.rewards.patches import PatchRefused, is_test_surface, read_patch, to_bytes
from turnsmith.rewards.shadows import find_import_roots, is_shadow
from turnsmith.rewards.testing import CLEAN_STATUSES, Suite, SuiteReport, find_test_files, holds, run_suite
from turnsmith.sandboxes.base import Sandbox, SandboxProvider
from turnsmith.types import Grade, Outcome, Task

APPLY = "GIT_DIR=/nonexistent git apply --whitespace=nowarn -"
"""Outside of any repository, so that no configuration, attribute or hook of the tree is read."""
APPLY_TIMEOUT_S = 60.0
SETUP_TIMEOUT_S = 600.0
MAX_DETAIL_CHARACTERS = 300


class Grader:
    """Grades patches, `num_workers` at a time; identical patches of one task are graded once until `forget`."""

    def __init__(self, provider: SandboxProvider, *, tests_timeout_s: float, num_workers: int) -> None:
        self._provider = provider
        self._tests_timeout_s = tests_timeout_s
        self._free_workers = asyncio.Semaphore(num_workers)
        self._verdicts: dict[tuple[str, str], asyncio.Task[Grade]] = {}

    async def grade(self, task: Task, layers: Sequence[Path], patch: str) -> Grade:
        """The verdict on a patch against the task's layers. An infrastructure failure is a verdict too, and not remembered."""
        if not patch.strip():
            return Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing was changed")
        key = (task.instance_id, hashlib.sha256(patch.encode(errors="surrogatepass")).hexdigest())
        shared = key in self._verdicts
        if not shared:
            self._verdicts[key] = asyncio.create_task(self._judge(task, layers, patch))
        verdict = self._verdicts[key]
        grade = await asyncio.shield(verdict)
        if grade.outcome is Outcome.GRADER_FAILED and self._verdicts.get(key) is verdict:
            del self._verdicts[key]
        return grade.model_copy(update={"shared": True}) if shared else grade

    def forget(self) -> None:
        """Forget all verdicts: an iteration has ended."""
        self._verdicts.clear()

    async def grade_unpatched(self, task: Task, layers: Sequence[Path]) -> Grade:
        """Really run the tests on the tree as the agent finds it, which a task must fail."""
        return await self._judge(task, layers, "")

    async def _judge(self, task: Task, layers: Sequence[Path], patch: str) -> Grade:
        """The one place where a fault becomes an outcome."""
        async with self._free_workers:
            started = time.perf_counter()
            try:
                grade = await self._run(task, layers, *select_hunks(task, layers, patch))
            except PatchRefused as refusal:
                grade = Grade(outcome=Outcome.PATCH_INVALID, detail=str(refusal))
            except (SandboxError, GradingError) as error:
                grade = Grade(outcome=Outcome.GRADER_FAILED, detail=str(error))
            return grade.model_copy(
                update={"duration_s": time.perf_counter() - started, "detail": to_one_line(grade.detail)}
            )

    async def _run(self, task: Task, layers: Sequence[Path], patch: str, num_dropped: int) -> Grade:
        """Grade in a sandbox of its own. Raises PatchRefused, SandboxError, GradingError."""
        if num_dropped and not patch:
            return Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing but the test surface was changed")
        suite = _expected_suite(task, self._tests_timeout_s)
        report = await run_suite(self._provider, layers, suite, partial(_prepare, task, patch))
        grade = judge(task, report)
        dropped = f"{num_dropped} files of the test surface left out" if num_dropped else ""
        detail = "; ".join(filter(None, [grade.detail, dropped]))
        return grade.model_copy(update={"isolation": self._provider.isolation, "detail": detail})


def select_hunks(task: Task, layers: Sequence[Path], patch: str) -> tuple[str, int]:
    """The part of the patch that has no say over the tests, and the number of files left out. Raises PatchRefused."""
    files, surface = read_patch(patch), _surface_files(task)
    roots = find_import_roots(surface, layers)

    def is_left_out(path: str) -> bool:
        return is_test_surface(path, surface) or is_shadow(path, roots, layers)

    kept = [file.text for file in files if not any(is_left_out(path) for path in file.paths)]
    return "".join(kept), len(files) - len(kept)


def _surface_files(task: Task) -> set[str]:
    """Files of the expected tests and of the hidden ones. Raises GradingError."""
    try:
        hidden = {path for file in read_patch(task.test_patch) for path in file.paths}
    except PatchRefused as refusal:
        raise GradingError(f"the test patch of {task.instance_id} cannot be used: {refusal}") from None
    return hidden.union(find_test_files([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]))


def _expected_suite(task: Task, timeout_s: float) -> Suite:
    """The files that hold the tests of a task."""
    expected = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    files = find_test_files(expected)
    return Suite(task.test_command, files, task.workdir, task.log_parser, timeout_s, frozenset(expected))


async def _prepare(task: Task, patch: str, sandbox: Sandbox) -> None:
    """Set up, apply the patch, apply the hidden tests. Raises PatchRefused, SandboxError, GradingError."""
    await set_up(sandbox, task)
    fault = await _apply(sandbox, patch)
    if fault:
        raise PatchRefused(f"does not apply: {fault}")
    fault = await _apply(sandbox, task.test_patch)
    if fault:
        raise GradingError(f"the test patch of {task.instance_id} does not apply: {fault}")


async def set_up(sandbox: Sandbox, task: Task) -> None:
    """Run the set-up commands of a task in a new sandbox, the agent's or ours. Raises SandboxError, also where one fails."""
    for command in task.setup:
        result = await sandbox.exec(command, timeout_s=SETUP_TIMEOUT_S)
        if result.exit_code != 0:
            raise SandboxError(f"set-up command {command!r} of {task.instance_id} ended with {result.exit_code}")


async def _apply(sandbox: Sandbox, patch: str) -> str:
    """Apply a patch to the tree; returns git's complaint, or nothing. Raises SandboxError, GradingError."""
    if not patch:
        return ""
    result = await sandbox.exec(APPLY, timeout_s=APPLY_TIMEOUT_S, stdin=to_bytes(patch))
    if result.timed_out or result.exit_code == 127:
        raise GradingError("git did not answer in the sandbox: is it installed there?")
    complaint = result.output.decode(errors="replace").strip() or f"git ended with {result.exit_code}"
    return complaint.splitlines()[0] if result.exit_code else ""


def judge(task: Task, report: SuiteReport) -> Grade:
    """Resolved only if every expected test is seen to hold and the exit code tells the same story as the log.

    A test that is skipped, or expected to fail, holds only where the maker saw the same on the clean tree and recorded it.
    """
    if report.timed_out:
        return Grade(outcome=Outcome.TESTS_TIMED_OUT, detail=f"the tests ran longer than {report.duration_s:.0f} s")
    statuses = {test: _status(task, report, test) for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]}
    broken = [test for test, status in statuses.items() if status != "passed"]
    if broken:
        return Grade(outcome=Outcome.UNRESOLVED, statuses=statuses, detail=_describe(broken, statuses))
    if not report.agrees:
        detail = f"exit code {report.exit_code} does not agree with the log"
        return Grade(outcome=Outcome.UNRESOLVED, statuses=statuses, detail=detail)
    return Grade(outcome=Outcome.RESOLVED, statuses=statuses)


def _status(task: Task, report: SuiteReport, test: str) -> str:
    """`passed` for all that holds."""
    status = report.status(test)
    return "passed" if holds(status, task.meta.get(CLEAN_STATUSES, {}).get(test, "passed")) else status


def _describe(broken: Sequence[str], statuses: dict[str, str]) -> str:
    first = f"{broken[0]} {statuses[broken[0]]}"
    return f"{len(broken)} of {len(statuses)} expected tests do not pass: {first}" + (", …" if len(broken) > 1 else "")


def to_one_line(text: str) -> str:
    """Printable and of bounded length: what git and the tests say may quote the agent."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= MAX_DETAIL_CHARACTERS else line[: MAX_DETAIL_CHARACTERS - 1] + "…"
