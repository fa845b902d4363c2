"""Options that several commands share, and what they make of the sandboxes."""

from typing import Annotated, Any, Literal

import typer

from turnsmith.config import CONTAINER_KINDS, SandboxConfig
from turnsmith.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kind = Literal["local", "podman", "docker", "subprocess"]
SandboxKind = Annotated[Kind, typer.Option("--sandbox", help="subprocess isolates nothing from this machine.")]
Image = Annotated[
    str,
    typer.Option("--sandbox.image", metavar="NAME|PATH", help="With containers: image for tasks that name none."),
]
Engine = Annotated[
    str,
    typer.Option("--sandbox.container_engine", metavar="PROGRAM", help="Called in place of podman or docker."),
]


def configure_sandbox(kind: Kind, image: str, engine: str, **others: Any) -> SandboxConfig:
    """The sandboxes that were asked for. Raises UsageError."""
    if kind not in CONTAINER_KINDS and (image or engine):
        raise UsageError(
            "--sandbox.image and --sandbox.container_engine are for containers: give --sandbox podman or docker"
        )
    return SandboxConfig(kind=kind, image=image, container_engine=engine, **others)
