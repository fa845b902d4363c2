"""`tasks images`: are the images of a task file there, what do they weigh, and get them here."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import Chosen, Engine, Json, Limit, TaskPath
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from turnsmith.cli.image_report import ImageSearch, Pulling

PullThem = Annotated[bool, typer.Option("--pull", help="Pull what is missing here; what is pulled stays, and goes on.")]
Bandwidth = Annotated[
    float, typer.Option("--bandwidth", metavar="MBPS", min=0.001, help="Megabits per second of the pull time.")
]
MaxGb = Annotated[
    float | None,
    typer.Option("--max-gb", metavar="N", min=0, help="With --pull: evict images that we pulled, to stay below N GB."),
]


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
    """Find out which images a run needs, which are missing, what they weigh, and how long a pull takes.

    Exit code 1 where an image is missing, is not known, or could not be pulled.
    """
    from turnsmith.cli import image_report as found

    if max_gb is not None and not pull:
        raise UsageError("--max-gb goes with --pull: without it nothing is pulled, and nothing evicted")
    search = found.search(path, tasks or [], limit, engine or "podman", bandwidth)
    if not as_json:
        found.print_report(path, search, bandwidth)
    pulling = found.pull_all(search, max_gb) if pull else None
    if as_json:
        typer.echo(json.dumps(search.report | (pulling.report if pulling else {}), indent=2))
    elif pulling:
        found.print_pulls(pulling)
    conclude(search, pulling)


def conclude(search: "ImageSearch", pulling: "Pulling | None") -> None:
    """End with 1 where an image is not to be had. Raises UsageError where the disk ended a pull."""
    if pulling and pulling.stop:
        raise UsageError(f"{pulling.stop}; {pulling.num_pulled} of {pulling.num_wanted} images are pulled")
    if search.lacking or (pulling and pulling.faults):
        raise typer.Exit(EXIT_FAILED)
