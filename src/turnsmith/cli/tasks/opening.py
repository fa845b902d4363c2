"""A task file, and sandboxes for its tasks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.types import Task
from turnsmith.ui.live import watching

TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="JSONL file of tasks, or the folder that holds it.")]


@asynccontextmanager
async def open_tasks(path: Path, sandbox: SandboxConfig) -> AsyncIterator[tuple[Any, Any, Any]]:
    """The task set of a file, a provider of sandboxes, and progress on the terminal. Raises UsageError."""
    from turnsmith.recipes.task_sets import read_task_set
    from turnsmith.sandboxes import make_provider

    task_set = read_task_set(path.name, path)
    check_images(task_set.tasks, sandbox)
    provider = make_provider(sandbox)
    try:
        with watching() as progress:
            yield task_set, provider, progress
    finally:
        await provider.close()


def check_images(tasks: list[Task], sandbox: SandboxConfig) -> None:
    """What is proved of a task holds for its own image, or for none. Raises UsageError."""
    in_containers = sandbox.kind == "podman"
    wrong = [task for task in tasks if bool(task.image or sandbox.image) is not in_containers]
    if wrong and in_containers:
        raise UsageError(f"task {wrong[0].instance_id} names no image: give one by --sandbox.image")
    if wrong:
        raise UsageError(
            f"task {wrong[0].instance_id} lives in the image {wrong[0].image}, which --sandbox {sandbox.kind} does not "
            "use: give --sandbox podman"
        )


def say_number(tasks: Sequence[Any]) -> str:
    """`1 task`, `12 tasks`."""
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
