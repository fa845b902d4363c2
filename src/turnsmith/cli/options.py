"""Options that several commands share, and what they make of the sandboxes."""

from typing import Annotated, Any, Literal

import typer

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kind = Literal["local", "podman", "subprocess"]
SandboxKind = Annotated[Kind, typer.Option("--sandbox", help="subprocess isolates nothing from this machine.")]
Image = Annotated[
    str,
    typer.Option("--sandbox.image", metavar="NAME|PATH", help="With podman: image for tasks that name none."),
]
Engine = Annotated[
    str,
    typer.Option("--sandbox.container_engine", metavar="PROGRAM", help="Called in place of podman."),
]


def configure_sandbox(kind: Kind, image: str, engine: str, **others: Any) -> SandboxConfig:
    """The sandboxes that were asked for. Raises UsageError."""
    if kind != "podman" and (image or engine):
        raise UsageError("--sandbox.image and --sandbox.container_engine are for podman: give --sandbox podman")
    return SandboxConfig(kind=kind, image=image, container_engine=engine, **others)
