"""The task sets of a run: made once, kept in the run folder, read again on resume."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from turnsmith.audit.ability import Ability
from turnsmith.audit.mutants import Mutant
from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.gradability import SetAside, describe_aside, find_faulty
from turnsmith.runs import RunFolder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.characters import describe_mended
from turnsmith.tasks.curation.dates import read_date
from turnsmith.tasks.curation.repositories import normalise_repository
from turnsmith.tasks.dataset import FILE_NAME, environment_path, find_task_file, layer_paths, load_tasks
from turnsmith.tasks.selection import choose, digest_content, select_subset
from turnsmith.tracking import Progress
from turnsmith.types import Task


@dataclass(frozen=True)
class TaskSet:
    """Named tasks, each with the folders it is made of."""

    name: str
    tasks: list[Task]
    file: Path
    aside: Mapping[str, SetAside] = field(default_factory=dict)
    """Tasks of the file that cannot be graded, and are not among the others: id → reason."""
    mended: Sequence[str] = ()
    """Ids of tasks whose texts held lone surrogates."""
    abilities: Mapping[str, Ability] = field(default_factory=dict)
    """Instance id → the ability of its audit, where that is on record. No agent may see the mutants in it."""

    def remarks(self) -> list[str]:
        """Say what was set aside, a line for each reason, and what was mended."""
        lines = [*describe_aside(self.aside, len(self.ids())), *([describe_mended(self.mended)] if self.mended else [])]
        return [f"{self.name}: {line}" for line in lines]

    def ids(self) -> list[str]:
        """List the ids of all tasks, those set aside among them."""
        return [*(task.instance_id for task in self.tasks), *self.aside]

    def with_layers(self) -> list[tuple[Task, tuple[Path, ...]]]:
        """Each task with its layers as absolute paths."""
        return [(task, layer_paths(task, self.file)) for task in self.tasks]

    def list_abilities(self) -> list[Ability | None]:
        """List the ability of each task's audit; None where it is not on record."""
        return [self.abilities.get(task.instance_id) for task in self.tasks]


def list_mutants(*task_sets: TaskSet) -> dict[str, tuple[Mutant, ...]]:
    """List the mutants on record of all tasks of these sets, by instance id."""
    return {name: ability.mutants for task_set in task_sets for name, ability in task_set.abilities.items()}


async def prepare_task_set(
    name: str,
    task_set: TaskSetConfig,
    config: RunConfig,
    folder: RunFolder,
    provider: SandboxProvider,
    progress: Progress,
) -> TaskSet:
    """Read the task set, making it first where it is not there yet. Raises UsageError, SandboxError."""
    place = Path(task_set.path) if task_set.path else folder.task_set(name)
    if not task_set.path and not (place / FILE_NAME).exists():
        await make_tasks(name, task_set, config.seed_of(task_set), place, provider, progress)
    found = read_task_set(name, place, task_set)
    for line in found.remarks():
        progress.say(line)
    return found


def read_known_sets(config: RunConfig, folder: RunFolder) -> list[TaskSet]:
    """The task sets of a run that was made, where they still lie there. Raises UsageError."""
    places = {
        name: Path(source.path) if source.path else folder.task_set(name) for name, source in config.task_sets.items()
    }
    return [read_task_set(name, place, config.task_sets[name]) for name, place in places.items() if place.exists()]


def check_disjoint(train: TaskSet, others: list[TaskSet]) -> None:
    """Nothing that is trained on is evaluated on, or meant for it. Raises UsageError that names such tasks."""
    if held_out := [task.instance_id for task in train.tasks if task.meta.get("split") == "heldout"]:
        what = f"{len(held_out)} held-out tasks, e.g. {held_out[0]}"
        raise UsageError(f"train_tasks holds {what}: those are for evaluation alone")
    for other in others:
        if shared := find_shared(train.tasks, other.tasks):
            evaluated, trained = shared[0]
            what = "the same id" if evaluated == trained else "the same repository and gold patch"
            shares = f"eval_tasks.{other.name} shares {len(shared)} tasks with train_tasks"
            raise UsageError(f"{shares}, e.g. {evaluated} is trained on as {trained} ({what}): remove them from one")


def find_shared(train: Sequence[Task], other: Sequence[Task]) -> list[tuple[str, str]]:
    """Ids of tasks that are among the others, and by which id they are trained on: by the id itself, or by content."""
    ids = {task.instance_id for task in train}
    contents = {digest_content(task): task.instance_id for task in train if digest_content(task)}
    same = {task.instance_id: contents.get(digest_content(task), "") for task in other}
    return [(name, name if name in ids else trained) for name, trained in same.items() if name in ids or trained]


def warn_of_older(train: TaskSet, others: Sequence[TaskSet], progress: Progress) -> None:
    """Say how many evaluated tasks came up before one that is trained on, where both are of one repository and have dates."""
    newest: dict[str, datetime] = {}
    for repository, date in filter(None, map(_date_task, train.tasks)):
        newest[repository] = max(date, newest.get(repository, date))
    tasks = {task.instance_id: task for other in others for task in other.tasks}
    dated = filter(None, map(_date_task, tasks.values()))
    if num := sum(date < newest.get(repository, date) for repository, date in dated):
        progress.say(
            f"{num} of the {len(tasks)} evaluated tasks are older than a training task of their repository, whose tree may "
            "hold their fix: divide them by `tasks split --by date`"
        )


def _date_task(task: Task) -> tuple[str, datetime] | None:
    date = read_date(task.model_extra or {}, task.meta)
    return (normalise_repository(task.repo), date) if date and task.repo else None


def read_task_set(name: str, path: Path, wanted: TaskSetConfig | None = None) -> TaskSet:
    """Read a task set, or what is wanted of it, from disk; tasks that cannot be graded are set aside.

    Raises UsageError where a file, layer or id is missing, where a task wanted by its id cannot be graded, or where none can.
    """
    file, mended = find_task_file(path), list[str]()
    chosen = choose_tasks(path, wanted or TaskSetConfig(path=str(path)), mended.append)
    aside, names = find_faulty(chosen), {task.instance_id for task in chosen}
    tasks = [_place_environment(task, file) for task in chosen if task.instance_id not in aside]
    task_set = TaskSet(name, tasks, file, aside, [name for name in mended if name in names])
    refuse_aside(task_set, wanted.tasks if wanted else ())
    if not tasks:
        refuse_aside(task_set, aside)
    task_set.with_layers()
    return task_set


def refuse_aside(task_set: TaskSet, names: Iterable[str]) -> None:
    """Raise UsageError where a task of these ids was set aside."""
    if name := next((name for name in names if name in task_set.aside), None):
        raise UsageError(f"{task_set.file}: {name} {task_set.aside[name].detail}")


def choose_tasks(path: Path, wanted: TaskSetConfig, on_mended: Callable[[str], None] = lambda name: None) -> list[Task]:
    """Choose the tasks of a file that a configuration wants. Raises UsageError where an id is not there."""
    tasks = _read_subset(path, wanted, on_mended)
    return list(choose(tasks, _name_place(path, wanted), wanted.tasks, wanted.limit))


def _read_subset(path: Path, wanted: TaskSetConfig, on_mended: Callable[[str], None] = lambda name: None) -> list[Task]:
    tasks = load_tasks(path, on_mended)
    return select_subset(tasks, wanted.subset) if wanted.subset else tasks


def _name_place(path: Path, wanted: TaskSetConfig) -> str:
    return f"the subset {wanted.subset} of {path}" if wanted.subset else str(path)


def narrow_evaluation(config: RunConfig, names: Sequence[str], limit: int | None) -> RunConfig:
    """Evaluate on the tasks of these ids alone, where there are any, and on the first `limit` of each set.

    A set that holds none of the ids is left out. Raises UsageError where an id is in no set.
    """
    sets = _keep_named(config.eval_tasks, names) if names else config.eval_tasks
    if limit:
        sets = {name: source.model_copy(update={"limit": limit}) for name, source in sets.items()}
    inner = config.eval.model_copy(update={"sets": [name for name in config.eval.sets if name in sets]})
    return config.model_copy(update={"eval_tasks": sets, "eval": inner})


def _keep_named(sets: Mapping[str, TaskSetConfig], names: Sequence[str]) -> dict[str, TaskSetConfig]:
    held = {
        name: {task.instance_id for task in _read_subset(Path(source.path), source)}
        for name, source in sets.items()
        if source.path
    }
    if missing := [each for each in names if not any(each in ids for ids in held.values())]:
        where = ", ".join(f"{name} ({sets[name].path})" for name in held) or "none, as all are made by the run"
        raise UsageError(
            f"there is no task {missing[0]!r} in the evaluation task sets that are read from files: {where}"
        )
    found = {name: [each for each in names if each in ids] for name, ids in held.items()}
    return {name: sets[name].model_copy(update={"tasks": chosen}) for name, chosen in found.items() if chosen}


def _place_environment(task: Task, file: Path) -> Task:
    """With the absolute path of its environment, where it has one."""
    return task.model_copy(update={"environment": environment_path(task, file)}) if task.environment else task


async def make_tasks(
    name: str, config: TaskSetConfig, seed: int, folder: Path, provider: SandboxProvider, progress: Progress
) -> None:
    """Make practice tasks or tasks of a real package, whichever the configuration asks for."""
    label, total = f"making tasks: {name}", config.practice_tasks or config.package_tasks
    progress.begin(label, total)
    if config.package:
        tasks = await make_package_tasks(
            config.package,
            folder,
            num_tasks=total,
            provider=provider,
            seed=seed,
            on_verdict=lambda verdict: progress.advance(label, int(verdict.kept)),
        )
    else:
        spec = PracticeSpec(config.split, total, config.difficulty, seed)
        tasks = await make_practice_tasks(spec, folder, provider, on_task=lambda task: progress.advance(label))
    progress.end(label)
    if len(tasks) < total:
        progress.say(f"{name}: {len(tasks)} of {total} tasks, as its tests tell no more bugs")
