"""The verdict on a patch: pristine sandboxes, the patch without its say over the tests, trials, strict agreement.

The sandbox where the agent lived is never used. What the agent caused scores 0; what the infrastructure caused is GRADER_FAILED.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from turnsmith.errors import GradingError, SandboxError
from turnsmith.rewards.hunks import HunkClass, Selection, select_hunks
from turnsmith.rewards.mirror import NO_MIRROR, Mirror
from turnsmith.rewards.patches import PatchRefused
from turnsmith.rewards.projects import describe_project
from turnsmith.rewards.trials import Case, confirm, find_mirror, try_patch
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.types import Grade, Outcome, Task

MAX_DETAIL_CHARACTERS = 300
DIFFERS = "differs"
"""Flag of a patch whose say over the tests, had it been let through, would have changed the verdict."""


class Grader:
    """Grades patches, `num_workers` at a time; identical patches of one task are graded once until `forget`."""

    def __init__(self, provider: SandboxProvider, *, tests_timeout_s: float, num_workers: int) -> None:
        self._provider = provider
        self._tests_timeout_s = tests_timeout_s
        self._free_workers = asyncio.Semaphore(num_workers)
        self._verdicts: dict[tuple[str, tuple[Path, ...], str], asyncio.Task[Grade]] = {}
        self._mirrors: dict[tuple[str, tuple[Path, ...]], asyncio.Task[Mirror]] = {}

    async def grade(self, task: Task, layers: Sequence[Path], patch: str) -> Grade:
        """The verdict on a patch against the task's layers. An infrastructure failure is a verdict too, and not remembered."""
        if not patch.strip():
            return Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing was changed")
        key = (task.instance_id, tuple(layers), hashlib.sha256(patch.encode(errors="surrogatepass")).hexdigest())
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
        case = Case(task, tuple(layers), self._provider, self._tests_timeout_s)
        async with self._free_workers:
            started = time.perf_counter()
            try:
                grade = await self._run(case, patch)
            except PatchRefused as refusal:
                grade = Grade(outcome=Outcome.PATCH_INVALID, detail=str(refusal))
            except (SandboxError, GradingError) as error:
                grade = Grade(outcome=Outcome.GRADER_FAILED, detail=str(error))
            return grade.model_copy(
                update={"duration_s": time.perf_counter() - started, "detail": to_one_line(grade.detail)}
            )

    async def _run(self, case: Case, patch: str) -> Grade:
        """Grade in sandboxes of its own. Raises PatchRefused, SandboxError, GradingError."""
        selection = select_hunks(patch, describe_project(case.task, case.layers))
        if selection.dropped and not selection.patch:
            grade = Grade(outcome=Outcome.EMPTY_PATCH, detail="nothing was changed but what is left out")
        else:
            grade = await try_patch(case, selection.patch)
        if grade.resolved:
            grade = await confirm(case, selection.patch, await self._find_mirror(case), grade)
        if grade.resolved and _had_say_over_tests(selection):
            grade = await _compare_with_whole(case, patch, grade)
        return _note_dropped(grade, selection).model_copy(update={"isolation": self._provider.isolation})

    async def _find_mirror(self, case: Case) -> Mirror:
        """The mirror of a task, made at its first need. Raises SandboxError, GradingError."""
        key = case.task.instance_id, case.layers
        if key not in self._mirrors:
            self._mirrors[key] = asyncio.create_task(_make_mirror(case))
        finding = self._mirrors[key]
        try:
            return await asyncio.shield(finding)
        except (SandboxError, GradingError):
            if self._mirrors.get(key) is finding:
                del self._mirrors[key]
            raise


async def _make_mirror(case: Case) -> Mirror:
    """The mirror of a task by its gold patch; there is none where that cannot be used. Raises SandboxError, GradingError."""
    try:
        return await find_mirror(case)
    except PatchRefused:
        return NO_MIRROR


def _had_say_over_tests(selection: Selection) -> bool:
    return HunkClass.TEST_INFRASTRUCTURE in selection.dropped or HunkClass.TEST_SURFACE in selection.dropped


async def _compare_with_whole(case: Case, patch: str, grade: Grade) -> Grade:
    """Try the whole patch, too: the verdict stays that of the stripped one. Raises SandboxError."""
    try:
        whole = (await try_patch(case, patch)).outcome
    except (PatchRefused, GradingError):
        whole = Outcome.PATCH_INVALID
    return grade if whole is grade.outcome else grade.model_copy(update={"flags": [*grade.flags, DIFFERS]})


def _note_dropped(grade: Grade, selection: Selection) -> Grade:
    """What was left out, in the flags and in words."""
    num_dropped = selection.dropped.total()
    dropped = f"{num_dropped} files left out" if num_dropped and selection.patch else ""
    flags = [*grade.flags, *map(str, selection.dropped)]
    return grade.model_copy(update={"flags": flags, "detail": "; ".join(filter(None, [grade.detail, dropped]))})


def to_one_line(text: str) -> str:
    """Printable and of bounded length: what git and the tests say may quote the agent."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= MAX_DETAIL_CHARACTERS else line[: MAX_DETAIL_CHARACTERS - 1] + "…"
