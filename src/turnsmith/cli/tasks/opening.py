"""A task file whose tasks go with the sandboxes that were asked for."""

from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from turnsmith.recipes.task_sets import TaskSet

TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="JSONL file of tasks, or the folder that holds it.")]


def open_tasks(path: Path, sandbox: SandboxConfig) -> "TaskSet":
    """The task set of a file. What is proved of a task holds for its own image, or for none. Raises UsageError."""
    from turnsmith.recipes.task_sets import read_task_set

    task_set, in_containers = read_task_set(path.name, path), sandbox.kind == "podman"
    wrong = [task for task in task_set.tasks if bool(task.image or sandbox.image) is not in_containers]
    if wrong and in_containers:
        raise UsageError(f"task {wrong[0].instance_id} names no image: give one by --sandbox.image")
    if wrong:
        lives = f"task {wrong[0].instance_id} lives in the image {wrong[0].image}"
        raise UsageError(f"{lives}, which --sandbox {sandbox.kind} does not use: give --sandbox podman")
    return task_set


def say_number(tasks: Sized) -> str:
    """`1 task`, `12 tasks`."""
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
