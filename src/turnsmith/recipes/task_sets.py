"""Task sets of a run. They are made once, stored in the run folder, and read when the run is resumed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.curation.repositories import normalise_repository
from turnsmith.curation.splits import read_date
from turnsmith.errors import UsageError
from turnsmith.grading.logparse import PARSERS
from turnsmith.runs.folder import RunFolder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.dataset import FILE_NAME
from turnsmith.tasks.task_set import TaskSet, read_subset, read_task_set
from turnsmith.tracking import Progress
from turnsmith.types import Mutant, Task


def list_mutants(*task_sets: TaskSet) -> dict[str, tuple[Mutant, ...]]:
    """Return task id → mutants stored by qualification: tests of the task in which one expected value is made wrong."""
    return {name: ability.mutants for task_set in task_sets for name, ability in task_set.abilities.items()}


async def prepare_task_set(
    name: str,
    task_set: TaskSetConfig,
    config: RunConfig,
    folder: RunFolder,
    provider: SandboxProvider,
    progress: Progress,
) -> TaskSet:
    """Read a task set from disk, after making its tasks if the run has to make them. Raises UsageError, SandboxError."""
    place = Path(task_set.path) if task_set.path else folder.task_set(name)
    if not task_set.path and not (place / FILE_NAME).exists():
        await make_tasks(name, task_set, config.seed_of(task_set), place, provider, progress)
    found = read_task_set(name, place, PARSERS, task_set)
    for line in found.remarks():
        progress.log(line)
    return found


def read_known_sets(config: RunConfig, folder: RunFolder) -> list[TaskSet]:
    """Read the task sets of a run that still exist on disk. Raises UsageError."""
    places = {
        name: Path(source.path) if source.path else folder.task_set(name) for name, source in config.task_sets.items()
    }
    return [
        read_task_set(name, place, PARSERS, config.task_sets[name]) for name, place in places.items() if place.exists()
    ]


def warn_of_older(train: TaskSet, others: Sequence[TaskSet], progress: Progress) -> None:
    """Warn if trees of training tasks may contain fixes of evaluation tasks, i.e. of older tasks of the same repository."""
    newest: dict[str, datetime] = {}
    for repository, date in filter(None, map(_date_task, train.tasks)):
        newest[repository] = max(date, newest.get(repository, date))
    tasks = {task.instance_id: task for other in others for task in other.tasks}
    dated = filter(None, map(_date_task, tasks.values()))
    if num := sum(date < newest.get(repository, date) for repository, date in dated):
        progress.log(
            f"{num} of {len(tasks)} evaluation tasks are older than a training task of the same repository, so the training "
            "task's tree may contain their fix: split the tasks again with `tasks split --by date`"
        )


def _date_task(task: Task) -> tuple[str, datetime] | None:
    date = read_date(task.model_extra or {}, task.meta)
    return (normalise_repository(task.repo), date) if date and task.repo else None


def narrow_evaluation(config: RunConfig, names: Sequence[str], limit: int | None) -> RunConfig:
    """Restrict the evaluation to the tasks with these ids, if any are given, and to the first `limit` of each set.

    A set with none of the ids is left out. Raises UsageError if an id is in no set.
    """
    sets = _keep_named(config.eval_tasks, names) if names else config.eval_tasks
    if limit:
        sets = {name: source.model_copy(update={"limit": limit}) for name, source in sets.items()}
    return config.model_copy(update={"eval_tasks": sets})


def _keep_named(sets: Mapping[str, TaskSetConfig], names: Sequence[str]) -> dict[str, TaskSetConfig]:
    held = {
        name: {task.instance_id for task in read_subset(Path(source.path), source)}
        for name, source in sets.items()
        if source.path
    }
    if missing := [each for each in names if not any(each in ids for ids in held.values())]:
        if not held:
            raise UsageError("--task chooses tasks of task files, and this run makes its tasks: use --limit N")
        where = ", ".join(f"{name} ({sets[name].path})" for name in held)
        raise UsageError(f"no task {missing[0]!r} in {where}: give an id from these task files")
    found = {name: [each for each in names if each in ids] for name, ids in held.items()}
    return {name: sets[name].model_copy(update={"tasks": chosen}) for name, chosen in found.items() if chosen}


async def make_tasks(
    name: str, config: TaskSetConfig, seed: int, folder: Path, provider: SandboxProvider, progress: Progress
) -> None:
    """Make the tasks of a set as configured: practice tasks, or tasks of real packages."""
    total = config.practice_tasks or config.package_tasks
    with progress.work(f"making tasks: {name}", total) as work:
        if config.package:
            tasks = await make_package_tasks(
                config.package,
                folder,
                num_tasks=total,
                provider=provider,
                seed=seed,
                on_verdict=lambda verdict: work.advance(int(verdict.is_kept)),
            )
        else:
            spec = PracticeSpec(config.split, total, config.difficulty, seed)
            tasks = await make_practice_tasks(spec, folder, provider, on_task=lambda task: work.advance())
    if len(tasks) < total:
        progress.log(
            f"{name}: {len(tasks)} of {total} tasks were made: no other inserted bug makes the package's tests fail"
        )
