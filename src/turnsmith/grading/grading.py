"""Grader: applies a patch, without files that decide how tests run, in a new sandbox, and runs the tests once.

It never uses the agent's sandbox. If the infrastructure fails, the outcome is GRADER_FAILED, whatever the patch.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from turnsmith.errors import GradingError, PluginFailed, SandboxError
from turnsmith.git.patch_policy import PatchRefused, digest_patch
from turnsmith.grading.cases import Case, limit_tests, run_tests
from turnsmith.grading.judging import judge
from turnsmith.grading.patch_selection import describe_project, select_files, select_gold
from turnsmith.grading.sentinels import Sentinels, draw_sentinels
from turnsmith.grading.testing import SuiteReport, check_plugin
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.types import Grade, Outcome, Task, TaskTree

MAX_DETAIL_CHARACTERS = 300
PLUGIN = "plugin"
"""Flag of a grade: the grader's pytest plugin fails in every run of the task's tests, so the grade is not retried."""


class Grader:
    """Grader of patches, `num_workers` at a time. Identical patches of one task are graded once until `forget` is called.

    `on_report` receives the report of each test run.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        *,
        tests_timeout_s: float,
        num_workers: int,
        on_report: Callable[[Task, SuiteReport], None] = lambda task, report: None,
    ) -> None:
        self._provider = provider
        self._tests_timeout_s = tests_timeout_s
        self._on_report = on_report
        self._free_workers = asyncio.Semaphore(num_workers)
        self._verdicts: dict[tuple[str, tuple[Path, ...], str], asyncio.Task[Grade]] = {}

    async def grade(self, tree: TaskTree, patch: str) -> Grade:
        """Grade a patch of a task. Cache the grade, except GRADER_FAILED if another run of the task may succeed."""
        if not patch.strip():
            return Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing was changed")
        key = (tree.instance_id, tree.layers, digest_patch(patch))
        shared = key in self._verdicts
        if not shared:
            self._verdicts[key] = asyncio.create_task(self._judge(tree, patch))
        verdict = self._verdicts[key]
        grade = await asyncio.shield(verdict)
        is_lasting = grade.outcome is not Outcome.GRADER_FAILED or PLUGIN in grade.flags
        if not is_lasting and self._verdicts.get(key) is verdict:
            del self._verdicts[key]
        return grade.model_copy(update={"shared": True}) if shared else grade

    def forget(self) -> None:
        """Clear the cached grades."""
        self._verdicts.clear()

    async def grade_unpatched(self, tree: TaskTree) -> Grade:
        """Grade the untouched tree, on which the task must be unresolved."""
        return await self._judge(tree, "")

    async def _judge(self, tree: TaskTree, patch: str) -> Grade:
        case = Case(tree, self._provider, limit_tests(tree.task, self._tests_timeout_s))
        async with self._free_workers:
            started = time.perf_counter()
            try:
                grade = await self._run(case, patch)
            except PatchRefused as refusal:
                grade = Grade(outcome=Outcome.PATCH_INVALID, detail=str(refusal))
            except PluginFailed as error:
                grade = Grade(outcome=Outcome.GRADER_FAILED, flags=[PLUGIN], detail=str(error))
            except (SandboxError, GradingError) as error:
                grade = Grade(outcome=Outcome.GRADER_FAILED, detail=str(error))
            return grade.model_copy(
                update={"duration_s": time.perf_counter() - started, "detail": to_one_line(grade.detail)}
            )

    async def _run(self, case: Case, patch: str) -> Grade:
        """Grade a patch without its files that decide how tests run. Raises PatchRefused, SandboxError, GradingError."""
        project = describe_project(case.tree)
        selection = await asyncio.to_thread(select_files, patch, project)
        num_dropped = len(selection.left_out)
        if num_dropped and not selection.patch:
            grade = Grade(outcome=Outcome.EMPTY_PATCH, detail="all changed files are left out")
        else:
            report, sentinels = await try_patch(case, selection.patch)
            self._on_report(case.task, report)
            if report.plugin_fault:
                await check_plugin_works(case)
            grade = judge(case.task, report, sentinels)
        details = [grade.detail, f"{num_dropped} files left out" if num_dropped and selection.patch else ""]
        columns = {"flags": [*grade.flags, *map(str, selection.dropped)], "isolation": self._provider.isolation}
        return grade.model_copy(update={**columns, "detail": "; ".join(filter(None, details))})


async def try_patch(case: Case, patch: str) -> tuple[SuiteReport, Sentinels | None]:
    """Run the expected tests on a patch, with sentinel tests if they use pytest; return the report and the sentinels.

    Raises PatchRefused, SandboxError, GradingError.
    """
    files = case.directives
    if not case.is_sealed:
        return await run_tests(case, patch, files, {}), None
    sentinels = draw_sentinels(PurePosixPath(files[0]).parent)
    return await run_tests(case, patch, (*files, sentinels.path), {sentinels.path: sentinels.text}), sentinels


async def check_plugin_works(case: Case) -> None:
    """Check that the grader's pytest plugin works on the untouched tree or with the gold patch.

    If it does, the graded patch broke it. Raises PluginFailed if it works in neither case; SandboxError, GradingError.
    """
    report, _ = await try_patch(case, "")
    if report.plugin_fault:
        try:
            report, _ = await try_patch(case, select_gold(case.tree))
        except PatchRefused as refusal:
            raise GradingError(f"the gold patch cannot be used: {refusal}") from None
    check_plugin(report)


async def try_plugin(case: Case) -> None:
    """Run only sentinel tests, on the untouched tree. Raises SandboxError; GradingError if the grader's plugin fails."""
    sentinels = draw_sentinels(PurePosixPath(next(iter(case.directives), "")).parent)
    check_plugin(await run_tests(case, "", (sentinels.path,), {sentinels.path: sentinels.text}))


def to_one_line(text: str) -> str:
    """Cut a text to one printable line, since output of git and tests may contain line breaks and control characters."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= MAX_DETAIL_CHARACTERS else line[: MAX_DETAIL_CHARACTERS - 1] + "…"
