"""Task sets: named tasks of one task file with their folders, read from disk and compared with each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.config import TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.tasks.characters import describe_mended
from turnsmith.tasks.dataset import environment_path, find_mended, find_task_file, layer_paths, load_tasks
from turnsmith.tasks.gradability import SetAside, describe_aside, find_faulty
from turnsmith.tasks.selection import choose, digest_content, select_subset
from turnsmith.types import Ability, Task, TaskTree


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
    """Recorded ability of each task's audit, by instance id. No agent may see the mutants in it."""

    def remarks(self) -> list[str]:
        """Say what was set aside, a line for each reason, and what was mended."""
        lines = [*describe_aside(self.aside, len(self.ids())), *([describe_mended(self.mended)] if self.mended else [])]
        return [f"{self.name}: {line}" for line in lines]

    def ids(self) -> list[str]:
        """List the ids of all tasks, those set aside among them."""
        return [*(task.instance_id for task in self.tasks), *self.aside]

    def list_trees(self) -> list[TaskTree]:
        """List the tasks with their working trees. Raises UsageError if a layer is missing."""
        return [TaskTree(task, layer_paths(task, self.file)) for task in self.tasks]

    def list_abilities(self) -> list[Ability | None]:
        """List the ability of each task's audit; None if it is not on record."""
        return [self.abilities.get(task.instance_id) for task in self.tasks]


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


def read_task_set(name: str, path: Path, parsers: Collection[str], wanted: TaskSetConfig | None = None) -> TaskSet:
    """Read a task set, or what is wanted of it, from disk; tasks that cannot be graded are set aside.

    `parsers` are the names of the log parsers at hand.
    Raises UsageError where a file, layer or id is missing, where a task wanted by its id cannot be graded, or where none can.
    """
    file = find_task_file(path)
    chosen = choose_tasks(path, wanted or TaskSetConfig(path=str(path)))
    aside, names = find_faulty(chosen, parsers), {task.instance_id for task in chosen}
    tasks = [_place_environment(task, file) for task in chosen if task.instance_id not in aside]
    task_set = TaskSet(name, tasks, file, aside, [name for name in find_mended(path) if name in names])
    refuse_aside(task_set, wanted.tasks if wanted else ())
    if not tasks:
        refuse_aside(task_set, aside)
    task_set.list_trees()
    return task_set


def refuse_aside(task_set: TaskSet, names: Iterable[str]) -> None:
    """Raise UsageError where a task of these ids was set aside."""
    if name := next((name for name in names if name in task_set.aside), None):
        raise UsageError(f"{task_set.file}: {name} {task_set.aside[name].detail}")


def choose_tasks(path: Path, wanted: TaskSetConfig) -> list[Task]:
    """Choose the tasks of a file that a configuration wants. Raises UsageError where an id is not there."""
    tasks = read_subset(path, wanted)
    return list(choose(tasks, _name_place(path, wanted), wanted.tasks, wanted.limit))


def read_subset(path: Path, wanted: TaskSetConfig) -> list[Task]:
    tasks = load_tasks(path)
    return select_subset(tasks, wanted.subset) if wanted.subset else tasks


def _name_place(path: Path, wanted: TaskSetConfig) -> str:
    return f"the subset {wanted.subset} of {path}" if wanted.subset else str(path)


def _place_environment(task: Task, file: Path) -> Task:
    """With the absolute path of its environment, where it has one."""
    return task.model_copy(update={"environment": environment_path(task, file)}) if task.environment else task
