"""`tasks images`: find the images of a task file, print their sizes, and pull them."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import Chosen, Engine, Json, Limit, TaskPath
from turnsmith.errors import UsageError
from turnsmith.sandboxes.podman import PODMAN

if TYPE_CHECKING:
    from turnsmith.cli.image_report import ImageSearch, Pulling

PullThem = Annotated[
    bool, typer.Option("--pull", help="Pull images that are not on this machine; an interrupted pull continues.")
]
Bandwidth = Annotated[
    float, typer.Option("--bandwidth", metavar="MBPS", min=0.001, help="Bandwidth in Mbit/s, to estimate pull times.")
]
MaxGb = Annotated[float | None, typer.Option("--max-gb", hidden=True)]


def show_images(
    path: TaskPath,
    pull: PullThem = False,
    limit: Limit = None,
    tasks: Chosen = None,
    bandwidth: Bandwidth = 100.0,
    max_gb: MaxGb = None,
    as_json: Json = False,
    engine: Engine = "",
) -> None:
    """List the images of tasks and their sizes, and pull them on request.

    The exit code is 1 if an image is missing from its registry, has an unknown state, or could not be pulled.
    """
    from turnsmith.cli import image_report as found

    if max_gb is not None:
        raise UsageError("--max-gb was removed: delete images with `podman image prune --all --filter until=72h`")
    search = found.search(path, tasks or [], limit, engine or PODMAN, bandwidth)
    if not as_json:
        found.print_report(path, search, bandwidth)
    pulling = found.pull_all(search) if pull else None
    if as_json:
        typer.echo(json.dumps(search.report | (pulling.report if pulling else {}), indent=2))
    elif pulling:
        found.print_pulls(pulling)
    conclude(search, pulling)


def conclude(search: "ImageSearch", pulling: "Pulling | None") -> None:
    """Exit with 1 if an image is not available. Raises UsageError if a full disk stopped the pull."""
    if pulling and pulling.stop:
        raise UsageError(f"{pulling.stop}; {pulling.num_pulled} of {pulling.num_wanted} images are pulled")
    if search.unavailable or (pulling and pulling.faults):
        raise typer.Exit(EXIT_FAILED)
