"""The task sets of a run: made once, kept in the run folder, read again on resume."""

from dataclasses import dataclass
from pathlib import Path

from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.rewards.logparse import PARSERS
from turnsmith.runs import RunFolder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.dataset import FILE_NAME, find_task_file, layer_paths, load_tasks
from turnsmith.tracking import Progress
from turnsmith.types import Task


@dataclass(frozen=True)
class TaskSet:
    """Named tasks, each with the folders it is made of."""

    name: str
    tasks: list[Task]
    file: Path

    def with_layers(self) -> list[tuple[Task, tuple[Path, ...]]]:
        """Each task with its layers as absolute paths."""
        return [(task, layer_paths(task, self.file)) for task in self.tasks]


async def prepare_task_set(
    name: str,
    task_set: TaskSetConfig,
    config: RunConfig,
    folder: RunFolder,
    provider: SandboxProvider,
    progress: Progress,
) -> TaskSet:
    """Read the task set, making it first where it is not there yet. Raises UsageError, SandboxError."""
    if task_set.path:
        return read_task_set(name, Path(task_set.path))
    place = folder.task_set(name)
    if not (place / FILE_NAME).exists():
        await make_tasks(name, task_set, config.seed_of(task_set), place, provider, progress)
    return read_task_set(name, place)


def check_disjoint(train: TaskSet, others: list[TaskSet]) -> None:
    """Nothing that is trained on is evaluated on, or meant for it. Raises UsageError that names such a task."""
    held_out = [task.instance_id for task in train.tasks if task.meta.get("split") == "heldout"]
    if held_out:
        raise UsageError(
            f"train_tasks holds {len(held_out)} held-out tasks, e.g. {held_out[0]}: those are for evaluation alone"
        )
    trained = {task.instance_id for task in train.tasks}
    for other in others:
        shared = sorted(trained & {task.instance_id for task in other.tasks})
        if shared:
            raise UsageError(
                f"eval_tasks.{other.name} shares {len(shared)} tasks with train_tasks, e.g. {shared[0]}: remove them"
            )


def read_task_set(name: str, path: Path) -> TaskSet:
    """A task set from disk. Raises UsageError where a file or a layer is missing, or where a line is no task."""
    tasks = load_tasks(path)
    task_set = TaskSet(name, tasks, find_task_file(path))
    task_set.with_layers()
    unknown = [task for task in tasks if task.log_parser not in PARSERS]
    if unknown:
        raise UsageError(
            f"{task_set.file}: {unknown[0].instance_id} asks for the log parser {unknown[0].log_parser!r}: "
            f"there is {', '.join(PARSERS)}"
        )
    return task_set


async def make_tasks(
    name: str, config: TaskSetConfig, seed: int, folder: Path, provider: SandboxProvider, progress: Progress
) -> None:
    """Make practice tasks or tasks of a real package, whichever the configuration asks for."""
    label = f"making tasks: {name}"
    total = config.practice_tasks or config.package_tasks
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
