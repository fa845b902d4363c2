"""Task sets: tasks of one file under a name, read from disk and checked against each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.config import TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import environment_path, find_task_file, layer_paths, load_tasks
from turnsmith.tasks.gradability import Exclusion, describe_excluded, find_faulty
from turnsmith.tasks.selection import choose, digest_content, select_subset
from turnsmith.types import Ability, Task, TaskTree


@dataclass(frozen=True)
class TaskSet:
    """Tasks of one file under a name, e.g. `train` or `eval`."""

    name: str
    tasks: list[Task]
    file: Path
    excluded: Mapping[str, Exclusion] = field(default_factory=dict)
    """Excluded tasks of the file, which are not in `tasks`: id → reason, e.g. that they cannot be graded."""
    abilities: Mapping[str, Ability] = field(default_factory=dict)
    """Task id → altered tests and other results of qualification, which audits use on patches; agents must not see them."""

    def remarks(self) -> list[str]:
        """Report the excluded tasks, one line per reason."""
        return [f"{self.name}: {line}" for line in describe_excluded(self.excluded, len(self.ids()))]

    def ids(self) -> list[str]:
        """List the ids of all tasks, excluded ones included."""
        return [*(task.instance_id for task in self.tasks), *self.excluded]

    def list_trees(self) -> list[TaskTree]:
        """Pair each task with the folders of its working tree. Raises UsageError if a folder is missing."""
        return [TaskTree(task, layer_paths(task, self.file)) for task in self.tasks]

    def list_abilities(self) -> list[Ability | None]:
        """List the entries of `abilities` in the order of `tasks`; None for a task without one."""
        return [self.abilities.get(task.instance_id) for task in self.tasks]


def check_disjoint(train: TaskSet, others: list[TaskSet]) -> None:
    """Raise UsageError if a training task is also an evaluation task, or is marked as held out."""
    if held_out := [task.instance_id for task in train.tasks if task.meta.get("split") == "heldout"]:
        found = f"{len(held_out)} held-out tasks, e.g. {held_out[0]}"
        raise UsageError(f"train_tasks holds {found}: remove them, since they are for evaluation only")
    for other in others:
        if shared := find_shared(train.tasks, other.tasks):
            evaluated, trained = shared[0]
            same = "the same id" if evaluated == trained else "the same repository and gold patch"
            shares = f"eval_tasks.{other.name} shares {len(shared)} tasks with train_tasks"
            raise UsageError(f"{shares}, e.g. {evaluated} is in train_tasks as {trained} ({same}): remove one")


def find_shared(train: Sequence[Task], other: Sequence[Task]) -> list[tuple[str, str]]:
    """Pair each task of `other` with an equal training task (same id or content). Return pairs of ids: other, training."""
    ids = {task.instance_id for task in train}
    contents = {digest_content(task): task.instance_id for task in train if digest_content(task)}
    same = {task.instance_id: contents.get(digest_content(task), "") for task in other}
    return [(name, name if name in ids else trained) for name, trained in same.items() if name in ids or trained]


def read_task_set(name: str, path: Path, parsers: Collection[str], wanted: TaskSetConfig | None = None) -> TaskSet:
    """Read a task set, or the tasks that `wanted` selects, and exclude those that cannot be graded with the log parsers.

    Raises UsageError if a file, folder or id is missing, or if no task, or one that `wanted` names, cannot be graded.
    """
    file = find_task_file(path)
    chosen = choose_tasks(path, wanted or TaskSetConfig(path=str(path)))
    excluded = find_faulty(chosen, parsers)
    tasks = [
        task.model_copy(update={"environment": environment_path(task, file)}) if task.environment else task
        for task in chosen
        if task.instance_id not in excluded
    ]
    task_set = TaskSet(name, tasks, file, excluded)
    refuse_excluded(task_set, wanted.tasks if wanted else ())
    if not tasks:
        refuse_excluded(task_set, excluded)
    task_set.list_trees()
    return task_set


def refuse_excluded(task_set: TaskSet, names: Iterable[str]) -> None:
    """Raise UsageError if a task in `names` was excluded because it cannot be graded."""
    if name := next((name for name in names if name in task_set.excluded), None):
        raise UsageError(f"{task_set.file}: task {name} cannot be graded: it {task_set.excluded[name].detail}")


def choose_tasks(path: Path, wanted: TaskSetConfig) -> list[Task]:
    """Choose the tasks of a file that the configuration selects. Raises UsageError if an id is missing."""
    place = f"the subset {wanted.subset} of {path}" if wanted.subset else path
    return list(choose(read_subset(path, wanted), place, wanted.tasks, wanted.limit))


def read_subset(path: Path, wanted: TaskSetConfig) -> list[Task]:
    """Read the tasks of a file, or of the subset that a configuration names. Raises UsageError."""
    tasks = load_tasks(path)
    return select_subset(tasks, wanted.subset) if wanted.subset else tasks
