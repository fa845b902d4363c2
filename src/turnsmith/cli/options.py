"""Options that several commands share, and work in the sandboxes that they ask for."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.tracking import Progress
from turnsmith.ui.live import watching

if TYPE_CHECKING:
    from turnsmith.sandboxes.base import SandboxProvider

T = TypeVar("T")
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kind = Literal["local", "podman", "subprocess"]
SandboxKind = Annotated[Kind, typer.Option("--sandbox", help="subprocess isolates nothing from this machine.")]
Image = Annotated[
    str, typer.Option("--sandbox.image", metavar="NAME|PATH", help="With podman: image for tasks that name none.")
]
Engine = Annotated[
    str, typer.Option("--sandbox.container_engine", metavar="PROGRAM", help="Called in place of podman.")
]


def configure_sandbox(kind: Kind, image: str, engine: str, **others: Any) -> SandboxConfig:
    """The sandboxes that were asked for. Raises UsageError."""
    if kind != "podman" and (image or engine):
        raise UsageError("--sandbox.image and --sandbox.container_engine are for podman: give --sandbox podman")
    return SandboxConfig(kind=kind, image=image, container_engine=engine, **others)


def work_in_sandboxes(config: SandboxConfig, work: "Callable[[SandboxProvider, Progress], Awaitable[T]]") -> T:
    """What the work gives, watched on the terminal; its sandboxes end with it."""
    from turnsmith.sandboxes import make_provider

    async def watch() -> T:
        provider = make_provider(config)
        try:
            with watching() as progress:
                return await work(provider, progress)
        finally:
            await provider.close()

    return asyncio.run(watch())
