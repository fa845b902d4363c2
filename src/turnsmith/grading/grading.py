"""The verdict on a patch: a pristine sandbox, the patch without its say over the tests, one run, strict agreement.

The sandbox where the agent lived is never used. What the agent caused scores 0; what the infrastructure caused is GRADER_FAILED.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from turnsmith.errors import GradingError, PluginFailed, SandboxError
from turnsmith.git.patch_policy import PatchRefused, digest_patch
from turnsmith.grading.cases import Case, limit_tests, run_tests
from turnsmith.grading.judging import judge
from turnsmith.grading.patch_selection import describe_project, select_gold, select_hunks
from turnsmith.grading.sentinels import Sentinels, draw_sentinels
from turnsmith.grading.testing import SuiteReport, check_plugin
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.types import Grade, Outcome, Task, TaskTree

MAX_DETAIL_CHARACTERS = 300
PLUGIN = "plugin"
"""Flag of a fault that every run of the task's tests has: it is not tried again."""


class Grader:
    """Grades patches, `num_workers` at a time; identical patches of one task are graded once until `forget`.

    `on_report` is given what each run of the tests left.
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
        """Grade a patch against the task's layers. A fault of the infrastructure is remembered only where it is the task's."""
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
        """Forget all verdicts: an iteration has ended."""
        self._verdicts.clear()

    async def grade_unpatched(self, tree: TaskTree) -> Grade:
        """Really run the tests on the tree as the agent finds it, which a task must fail."""
        return await self._judge(tree, "")

    async def _judge(self, tree: TaskTree, patch: str) -> Grade:
        """The one place where a fault becomes an outcome."""
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
        """Grade in a sandbox of its own. Raises PatchRefused, SandboxError, GradingError."""
        project = describe_project(case.tree)
        selection = await asyncio.to_thread(select_hunks, patch, project)
        num_dropped = selection.dropped.total()
        if num_dropped and not selection.patch:
            grade = Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing was changed but what is left out")
        else:
            report, sentinels = await try_patch(case, selection.patch)
            self._on_report(case.task, report)
            if report.plugin_fault:
                await refuse_own_fault(case)
            grade = judge(case.task, report, sentinels)
        details = [grade.detail, f"{num_dropped} files left out" if num_dropped and selection.patch else ""]
        seen = {"flags": [*grade.flags, *map(str, selection.dropped)], "detail": "; ".join(filter(None, details))}
        return grade.model_copy(update={**seen, "isolation": self._provider.isolation})


async def try_patch(case: Case, patch: str) -> tuple[SuiteReport, Sentinels | None]:
    """Run the expected tests on a selected patch, with sentinels beside them where their report can be sealed.

    Raises PatchRefused, SandboxError, GradingError.
    """
    files = case.directives
    if not case.is_sealed:
        return await run_tests(case, patch, files, {}), None
    sentinels = draw_sentinels(PurePosixPath(files[0]).parent)
    return await run_tests(case, patch, (*files, sentinels.path), {sentinels.path: sentinels.text}), sentinels


async def refuse_own_fault(case: Case) -> None:
    """Run the tests on the clean tree and, where the grader's plugin fails there, with the gold patch.

    Where the plugin works in one of them, a patch that breaks it, or leaves it broken, is at fault.
    Raises PluginFailed where the plugin works in neither; SandboxError, GradingError.
    """
    report, _ = await try_patch(case, "")
    if report.plugin_fault:
        report, _ = await try_gold(case)
    check_plugin(report)


async def try_gold(case: Case) -> tuple[SuiteReport, Sentinels | None]:
    """Run the expected tests with the gold patch. Raises SandboxError, and GradingError where it cannot be used."""
    try:
        return await try_patch(case, select_gold(case.tree))
    except PatchRefused as refusal:
        raise GradingError(f"the gold patch cannot be used: {refusal}") from None


async def try_plugin(case: Case) -> None:
    """Run the grader's own tests alone on the clean tree. Raises SandboxError, GradingError."""
    sentinels = draw_sentinels(PurePosixPath(next(iter(case.directives), "")).parent)
    check_plugin(await run_tests(case, "", (sentinels.path,), {sentinels.path: sentinels.text}))


def to_one_line(text: str) -> str:
    """Printable and of bounded length: what git and the tests say may quote the agent."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= MAX_DETAIL_CHARACTERS else line[: MAX_DETAIL_CHARACTERS - 1] + "…"
