"""What `tasks images` finds out and prints."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from turnsmith.errors import UsageError
from turnsmith.sandboxes.images.logins import read_logins
from turnsmith.sandboxes.images.preflight import (
    Estimate,
    ImageFacts,
    KnownManifests,
    State,
    estimate,
    find_free_bytes,
    look_for,
)
from turnsmith.sandboxes.images.pulling import DiskFull, Pull, pull_images
from turnsmith.sandboxes.images.registry import Registry
from turnsmith.sandboxes.podman import find_users
from turnsmith.sandboxes.runtime import cache_folder
from turnsmith.tasks.dataset import stream_tasks
from turnsmith.tasks.selection import choose
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

MAX_SHOWN = 20
"""Lines of a table; --json has all."""


@dataclass(frozen=True)
class ImageSearch:
    """What was found out about the images of a task file."""

    program: str
    images: list[ImageFacts]
    tasks_of: Counter[str]
    report: dict[str, Any]
    """What `--json` prints."""

    @property
    def there(self) -> list[ImageFacts]:
        """Those that can be pulled, and are not here."""
        return [image for image in self.images if image.state is State.THERE]

    @property
    def lacking(self) -> list[ImageFacts]:
        """Those that are missing, or of which the registry did not say."""
        return [image for image in self.images if image.state in (State.MISSING, State.UNKNOWN)]


@dataclass(frozen=True)
class Pulling:
    """What became of the images that were to be pulled."""

    pulls: list[Pull]
    num_wanted: int
    stop: str
    """What ended it early, if anything did."""

    @property
    def faults(self) -> dict[str, str]:
        """Image → why it could not be pulled."""
        return {pull.image.name: pull.fault for pull in self.pulls if pull.fault}

    @property
    def num_pulled(self) -> int:
        return len(self.pulls) - len(self.faults)

    @property
    def report(self) -> dict[str, Any]:
        """What `--json` prints besides."""
        return {"pulled": self.num_pulled, "not_pulled": self.faults, "stopped": self.stop}


def search(path: Path, names: Collection[str], limit: int | None, program: str, bandwidth: float) -> ImageSearch:
    """Look for the images of the tasks of a file that are wanted. Raises UsageError."""
    tasks_of = count_tasks(path, names, limit)
    find_users(program)
    images = look_up(list(tasks_of), program)
    there = [image for image in images if image.state is State.THERE]
    free_bytes = find_free_bytes(program) if there else None
    return ImageSearch(program, images, tasks_of, make_report(images, tasks_of, estimate(there, bandwidth), free_bytes))


def count_tasks(path: Path, names: Collection[str], limit: int | None) -> Counter[str]:
    """How many tasks each image has, in the order of the file. Raises UsageError where no task names one."""
    images = Counter(task.image for task in choose(stream_tasks(path), path, names, limit) if task.image)
    if not images:
        raise UsageError(f"no task of {path} names an image, so there is nothing to look for")
    return images


def look_up(names: Sequence[str], program: str) -> list[ImageFacts]:
    """The facts of each image, watched; manifests are kept for the next time."""
    known = KnownManifests(cache_folder() / "manifests.jsonl")
    known.read()
    found, label = [], "looking for images"
    with watching() as progress:
        progress.begin(label, len(names))
        for facts in look_for(names, program, Registry(read_logins(), known.manifests)):
            found.append(facts)
            if facts.manifest:
                known.add(facts.manifest)
            progress.advance(label)
        progress.end(label)
    return found


def make_report(
    images: Sequence[ImageFacts], tasks_of: Counter[str], needs: Estimate, free_bytes: int | None
) -> dict[str, Any]:
    """What `--json` prints."""
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
        **asdict(needs),
    }


def print_report(path: Path, search: ImageSearch, bandwidth: float) -> None:
    """What is wrong, image by image, the counts, and what a pull takes."""
    console, images, tasks_of, report = make_console(), search.images, search.tasks_of, search.report
    wrong = [image for image in images if image.reason]
    if wrong:
        rows = [(image.name, image.state, tasks_of[image.name], image.reason) for image in wrong[:MAX_SHOWN]]
        console.print(make_table(["image", "state", "tasks", "why"], rows))
    if len(wrong) > MAX_SHOWN:
        typer.echo(f"… and {len(wrong) - MAX_SHOWN} more: --json has all")
    counts = report["counts"]
    said = [f"{counts['here']} here", f"{counts['there']} to be pulled", f"{counts['missing']} missing"]
    unknown = [f"{counts['unknown']} of which the registry did not say"] if counts["unknown"] else []
    num_images = "1 image" if len(images) == 1 else f"{len(images)} images"
    typer.echo(f"{num_images} of {tasks_of.total()} tasks in {path}: {', '.join(said + unknown)}")
    if counts["there"]:
        typer.echo(
            f"to pull: {say_bytes(report['download_bytes'])}, {say_time(report['seconds'])} at {bandwidth:g} Mbit/s; "
            f"about {say_bytes(report['disk_bytes'])} of disk, of {say_bytes(report['free_bytes'])} that are free"
        )


def pull_all(search: ImageSearch, max_gb: float | None) -> Pulling:
    """Pull what is not here, watched."""
    max_bytes = None if max_gb is None else round(max_gb * 1e9)
    pulls, images, needed = list[Pull](), search.there, list(search.tasks_of)
    label = "pulling (MB)"
    with watching() as progress:
        progress.begin(label, sum(weigh(image) for image in images))
        try:
            for pull in pull_images(search.program, images, needed, max_bytes):
                pulls.append(pull)
                progress.advance(label, weigh(pull.image), f"{len(pulls)}/{len(images)} images")
        except DiskFull as error:
            return Pulling(pulls, len(images), str(error))
        finally:
            progress.end(label)
    return Pulling(pulls, len(images), "")


def weigh(image: ImageFacts) -> int:
    """Megabytes, and at least one."""
    return max(1, sum(image.layers.values()) // 1_000_000)


def print_pulls(pulling: Pulling) -> None:
    """The images that could not be pulled, and the count."""
    if pulling.faults:
        make_console().print(make_table(["not pulled", "why"], list(pulling.faults.items())[:MAX_SHOWN]))
    typer.echo(f"{pulling.num_pulled} of {pulling.num_wanted} images pulled")


def say_bytes(count: float) -> str:
    """`1.2 GB`, `350 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def say_time(seconds: float) -> str:
    """`3 h 20 min`, `45 s`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if seconds >= 60 else f"{seconds:.0f} s"
