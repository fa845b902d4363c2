"""Checks of container images before a run: presence on this machine, availability in a registry, and cost of a pull."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.io.http import Unanswered
from turnsmith.runs.folder import append_line
from turnsmith.sandboxes.images.references import HUB, LOCAL, Reference, is_name, is_root, parse_reference
from turnsmith.sandboxes.images.registry import Manifest, Missing, Registry
from turnsmith.sandboxes.podman import ask

EXPANSION = 2.5
"""Estimated ratio of an image's bytes on disk to its downloaded bytes (docs/decisions.md)."""
ASKED_AT_ONCE = 8
"""Number of concurrent queries to image registries."""


class State(StrEnum):
    """Availability of an image."""

    HERE = "here"
    """The image is on this machine."""
    PULLABLE = "there"
    """The image can be pulled from its registry."""
    MISSING = "missing"
    """The image exists neither on this machine nor in its registry; its tasks cannot run."""
    UNKNOWN = "unknown"
    """Availability of the image is unknown: its registry gave no usable answer."""


@dataclass(frozen=True)
class ImageFacts:
    """Availability of one image."""

    name: str
    state: State
    reason: str = ""
    """Reason for the state `MISSING` or `UNKNOWN` of an image."""
    manifest: Manifest | None = None
    """Manifest of an image that its registry has and this machine lacks; else None."""

    @property
    def layers(self) -> dict[str, int]:
        """Return the layers that a pull downloads: digest → compressed size in bytes."""
        return self.manifest.layers if self.manifest else {}


@dataclass(frozen=True)
class Estimate:
    """Cost of pulling images; shared layers count once."""

    download_bytes: int
    disk_bytes: int
    """Disk space that the images need, estimated as downloaded bytes times `EXPANSION`."""
    seconds: float


@dataclass
class KnownManifests:
    """Cache of image manifests by digest, stored in an append-only JSONL file."""

    file: Path
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def read(self) -> None:
        """Load the cached manifests from the file; skip damaged lines."""
        for line in self.file.read_text(errors="replace").splitlines() if self.file.exists() else ():
            try:
                manifest = Manifest(**json.loads(line))
            except (ValueError, TypeError):
                continue
            self.manifests[manifest.digest] = manifest

    def add(self, manifest: Manifest) -> None:
        """Append a manifest to the cache file, unless it has no digest or is already there."""
        if manifest.digest and manifest.digest not in self.manifests:
            self.manifests[manifest.digest] = manifest
            self.file.parent.mkdir(parents=True, exist_ok=True)
            append_line(self.file, json.dumps(asdict(manifest)))


def look_for(names: Iterable[str], program: str, registry: Registry) -> Iterator[ImageFacts]:
    """Yield the availability of each image in order; query registries concurrently. Raises UsageError if podman fails."""
    present = list_names(program)
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        asked = [threads.submit(find_facts, name, present, registry) for name in names]
        try:
            for future in asked:
                yield future.result()
        finally:
            threads.shutdown(cancel_futures=True)


def find_facts(name: str, present: Mapping[str, str], registry: Registry) -> ImageFacts:
    """Determine the availability of one image, given the images present on this machine."""
    if is_root(name):
        found = Path(name).exists()
        return (
            ImageFacts(name, State.HERE)
            if found
            else ImageFacts(name, State.MISSING, "there is no such file or folder")
        )
    if not is_name(name):
        return ImageFacts(name, State.MISSING, "not a valid image name")
    reference = parse_reference(name)
    if find_present(reference, present):
        return ImageFacts(name, State.HERE)
    if reference.registry == LOCAL:
        return ImageFacts(name, State.MISSING, "not found: it must be built on this machine")
    try:
        return ImageFacts(name, State.PULLABLE, manifest=registry.find(reference))
    except Missing as error:
        return ImageFacts(name, State.MISSING, str(error))
    except Unanswered as error:
        return ImageFacts(name, State.UNKNOWN, str(error))


def list_names(program: str) -> dict[str, str]:
    """Map the full name of every image on this machine to the image's content hash. Raises UsageError."""
    answer = ask(program, ["images", "--format", "json"])
    try:
        images = json.loads(answer or "[]")
        return {
            name: image["Id"].removeprefix("sha256:")
            for image in images
            for name in [*(image.get("Names") or []), *(image.get("RepoDigests") or [])]
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(
            f"{program} does not list images as podman does: choose another --sandbox.container_engine"
        ) from None


def find_present(reference: Reference, present: Mapping[str, str]) -> str:
    """Return the content hash of an image on this machine, else of the image of that name in `localhost`; else empty."""
    built = str(reference).replace(f"{HUB}/library/", f"{LOCAL}/").replace(f"{HUB}/", f"{LOCAL}/")
    return present.get(str(reference), "") or present.get(built, "")


def estimate(images: Iterable[ImageFacts], megabits_per_second: float) -> Estimate:
    """Estimate the download size, disk space and time of pulling images at a given bandwidth."""
    layers: dict[str, int] = {}
    for image in images:
        layers |= image.layers
    download = sum(layers.values())
    return Estimate(download, round(download * EXPANSION), download * 8 / (megabits_per_second * 1e6))


def find_free_bytes(program: str) -> int:
    """Return the free disk space, in bytes, where podman stores images. Raises UsageError."""
    answer = ask(program, ["info", "--format", "{{.Store.GraphRoot}}"]).strip()
    try:
        return shutil.disk_usage(answer).free
    except OSError as error:
        raise UsageError(f"{program} stores its images at {answer}, which cannot be read: {error}") from None
