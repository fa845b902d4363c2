"""Options that several commands share, and work in the sandboxes that they ask for."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.git.diff import check_git
from turnsmith.tracking import Progress
from turnsmith.ui.interruption import announcing
from turnsmith.ui.live import watching

if TYPE_CHECKING:
    from turnsmith.sandboxes.base import SandboxProvider

T = TypeVar("T")
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="JSONL file of tasks, or the folder that holds it.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the tasks.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N.")]
Chosen = Annotated[list[str] | None, typer.Option("--task", metavar="ID", help="Only this task; may be repeated.")]
OneTask = Annotated[str, typer.Option("--task", metavar="ID", help="Only this task.")]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Done at once [default: one for each core].")
]
Kind = Literal["local", "podman", "subprocess"]
SandboxKind = Annotated[Kind, typer.Option("--sandbox", help="subprocess isolates nothing from this machine.")]
Image = Annotated[
    str, typer.Option("--sandbox.image", metavar="NAME|PATH", help="With podman: image for tasks that name none.")
]
Engine = Annotated[
    str, typer.Option("--sandbox.container_engine", metavar="PROGRAM", help="Called in place of podman.")
]


def count_workers(wanted: int | None) -> int:
    """So many as are wanted, or as there are cores."""
    return wanted or os.cpu_count() or 1


def going_on() -> AbstractContextManager[None]:
    """Announce that the same command goes on where Ctrl-C ends this block."""
    return announcing(remark="what is finished is kept, and the same command goes on")


def configure_sandbox(kind: Kind, image: str, engine: str, **others: Any) -> SandboxConfig:
    """The sandboxes that were asked for. Raises UsageError."""
    if kind != "podman" and (image or engine):
        raise UsageError("--sandbox.image and --sandbox.container_engine are for podman: give --sandbox podman")
    return SandboxConfig(kind=kind, image=image, container_engine=engine, **others)


def work_in_sandboxes(config: SandboxConfig, work: "Callable[[SandboxProvider, Progress], Awaitable[T]]") -> T:
    """Give the result of the work, watched on the terminal; its sandboxes end with it. Raises UsageError."""
    check_git()
    from turnsmith.sandboxes import make_provider

    async def watch() -> T:
        provider = make_provider(config)
        try:
            with watching() as progress:
                return await work(provider, progress)
        finally:
            await provider.close()

    return asyncio.run(watch())
