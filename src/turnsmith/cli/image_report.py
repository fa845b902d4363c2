"""Work of `tasks images`: find the images of tasks, estimate downloads, pull, and report."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from turnsmith.errors import UsageError
from turnsmith.sandboxes.images.preflight import (
    Estimate,
    ImageFacts,
    KnownManifests,
    State,
    estimate,
    find_free_bytes,
    look_for,
)
from turnsmith.sandboxes.images.pulling import DiskFull, pull_images
from turnsmith.sandboxes.images.registry import Registry, read_logins
from turnsmith.sandboxes.podman import find_users
from turnsmith.sandboxes.runtime import cache_folder
from turnsmith.tasks.dataset import stream_tasks
from turnsmith.tasks.selection import choose
from turnsmith.tracking.loops import follow
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

MAX_SHOWN = 20
"""Maximum number of images in a table; `--json` lists all."""


@dataclass(frozen=True)
class ImageSearch:
    """State and sizes of the images that a task file names."""

    program: str
    images: list[ImageFacts]
    tasks_of: Counter[str]
    report: dict[str, Any]
    """Data that `--json` prints."""

    @property
    def pullable(self) -> list[ImageFacts]:
        """Images that are not on this machine and can be pulled."""
        return [image for image in self.images if image.state is State.PULLABLE]

    @property
    def unavailable(self) -> list[ImageFacts]:
        """Images that are missing from their registry, or whose state the registry did not report."""
        return [image for image in self.images if image.state in (State.MISSING, State.UNKNOWN)]


@dataclass(frozen=True)
class Pulling:
    """Result of pulling images."""

    faults: dict[str, str]
    """Reason of each failed pull, by image."""
    num_pulled: int
    num_wanted: int
    stop: str
    """Error, e.g. a full disk, after which no more images were pulled; empty if none."""

    @property
    def report(self) -> dict[str, Any]:
        return {"pulled": self.num_pulled, "not_pulled": self.faults, "stopped": self.stop}


def search(path: Path, names: Collection[str], limit: int | None, program: str, bandwidth: float) -> ImageSearch:
    """Look for the images of the selected tasks of a file. Raises UsageError."""
    tasks_of = count_tasks(path, names, limit)
    find_users(program)
    images = look_up(list(tasks_of), program)
    pullable = [image for image in images if image.state is State.PULLABLE]
    free_bytes = find_free_bytes(program) if pullable else None
    return ImageSearch(
        program, images, tasks_of, make_report(images, tasks_of, estimate(pullable, bandwidth), free_bytes)
    )


def count_tasks(path: Path, names: Collection[str], limit: int | None) -> Counter[str]:
    """Count the tasks of each image, in the order of the file. Raises UsageError if no task names an image."""
    images = Counter(task.image for task in choose(stream_tasks(path), path, names, limit) if task.image)
    if not images:
        raise UsageError(f"no task of {path} names an image: give a file of tasks with images")
    return images


def look_up(names: Sequence[str], program: str) -> list[ImageFacts]:
    """Look up each image on this machine and in its registry, with visible progress. Manifests are cached."""
    known = KnownManifests(cache_folder() / "manifests.jsonl")
    known.read()
    found, states = [], look_for(names, program, Registry(read_logins(), known.manifests))
    with watching() as progress:
        for facts in follow(states, progress, "looking for images", len(names)):
            found.append(facts)
            if facts.manifest:
                known.add(facts.manifest)
    return found


def make_report(
    images: Sequence[ImageFacts], tasks_of: Counter[str], total: Estimate, free_bytes: int | None
) -> dict[str, Any]:
    counts = Counter(image.state for image in images)
    return {
        "images": [
            {
                "name": image.name,
                "state": image.state,
                "tasks": tasks_of[image.name],
                "download_bytes": sum(image.layers.values()) if image.manifest else None,
                "reason": image.reason,
            }
            for image in images
        ],
        "counts": {state: counts[state] for state in State},
        "free_bytes": free_bytes,
        **asdict(total),
    }


def print_report(path: Path, search: ImageSearch, bandwidth: float) -> None:
    """Print the images that are not available, counts of images, and the estimated size and time of a pull."""
    console, images, tasks_of, report = make_console(), search.images, search.tasks_of, search.report
    wrong = [image for image in images if image.reason]
    if wrong:
        rows = [(image.name, image.state, tasks_of[image.name], image.reason) for image in wrong[:MAX_SHOWN]]
        console.print(make_table(["image", "state", "tasks", "reason"], rows))
    if len(wrong) > MAX_SHOWN:
        typer.echo(f"… and {len(wrong) - MAX_SHOWN} more: --json lists all")
    counts = report["counts"]
    known = [f"{counts['here']} here", f"{counts['there']} to be pulled", f"{counts['missing']} missing"]
    unknown = [f"{counts['unknown']} unknown to the registry"] if counts["unknown"] else []
    num_images = "1 image" if len(images) == 1 else f"{len(images)} images"
    typer.echo(f"{num_images}, named by {tasks_of.total()} tasks of {path}: {', '.join(known + unknown)}")
    if counts["there"]:
        typer.echo(
            f"to pull: {describe_bytes(report['download_bytes'])}, {describe_time(report['seconds'])} at {bandwidth:g} Mbit/s; "
            f"about {describe_bytes(report['disk_bytes'])} of disk space, {describe_bytes(report['free_bytes'])} are free"
        )


def pull_all(search: ImageSearch) -> Pulling:
    """Pull the images that are not present, with visible progress."""
    images, faults, num_pulled, stop = search.pullable, dict[str, str](), 0, ""
    with watching() as progress, progress.work("pulling (MB)", sum(map(weigh, images))) as work:
        try:
            for number, (image, fault) in enumerate(pull_images(search.program, images), 1):
                num_pulled += not fault
                faults |= {image.name: fault} if fault else {}
                work.advance(weigh(image), f"{number}/{len(images)} images")
        except DiskFull as error:
            stop = str(error)
    return Pulling(faults, num_pulled, len(images), stop)


def weigh(image: ImageFacts) -> int:
    """Return the size of an image in MB, at least 1, by which the progress bar advances when the image is pulled."""
    return max(1, sum(image.layers.values()) // 1_000_000)


def print_pulls(pulling: Pulling) -> None:
    """Print the images that could not be pulled, and the number of pulled images."""
    if pulling.faults:
        make_console().print(make_table(["not pulled", "reason"], list(pulling.faults.items())[:MAX_SHOWN]))
    typer.echo(f"{pulling.num_pulled} of {pulling.num_wanted} images pulled")


def describe_bytes(count: float) -> str:
    """Format a size: `1.2 GB`, `350.0 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def describe_time(seconds: float) -> str:
    """Format a duration: `3 h 20 min`, `45 s`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if seconds >= 60 else f"{seconds:.0f} s"
