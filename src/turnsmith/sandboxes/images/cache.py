"""Records of the images that Turnsmith pulled, with sizes and times of last use.

Each image has one file in the user's cache; the file's modification time is the last use. Other images are never evicted.
"""

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from turnsmith.errors import UsageError
from turnsmith.io.files import write_file
from turnsmith.runs.temporary import remove_tree
from turnsmith.sandboxes.podman import ask
from turnsmith.sandboxes.runtime import cache_folder

FOLDER = "pulled-images"


class PulledImage(BaseModel):
    """Image that Turnsmith pulled to this machine."""

    name: str
    """Full name of the image: registry, repository, and tag or digest."""
    identity: str
    layers: dict[str, int]
    """Digest of each layer of the image → estimated bytes on disk."""


@dataclass(frozen=True)
class Kept:
    """Pulled image, its record file, and its last use (Unix time in seconds)."""

    image: PulledImage
    file: Path
    used_s: float


def record_pull(image: PulledImage) -> None:
    """Record a pulled image, so that it can be evicted later."""
    write_file(_file_of(image.identity), image.model_dump_json() + "\n")


def mark_use(identity: str) -> None:
    """Set the time of last use of an image to now, if Turnsmith pulled it."""
    if (file := _file_of(identity)).exists():
        os.utime(file, (time.time(), time.time()))


def list_kept(present: Collection[str]) -> list[Kept]:
    """List the pulled images that still exist, least recently used first; delete the records of missing images."""
    kept = []
    for file in (cache_folder() / FOLDER).glob("*.json"):
        try:
            image = PulledImage.model_validate_json(file.read_text())
        except (OSError, ValidationError):
            continue
        if image.identity in present:
            kept.append(Kept(image, file, file.stat().st_mtime))
        else:
            file.unlink(missing_ok=True)
    return sorted(kept, key=lambda found: found.used_s)


def count_bytes(images: Iterable[PulledImage]) -> int:
    """Sum the bytes of images on disk; a shared layer counts once."""
    layers: dict[str, int] = {}
    for image in images:
        layers |= image.layers
    return sum(layers.values())


def make_room(
    program: str, coming: PulledImage, max_bytes: int, needed: Collection[str], present: Collection[str]
) -> bool:
    """Evict the least recently used images until `coming` fits within `max_bytes`. Return False if it cannot fit.

    Images in `needed` and images in use are kept.
    """
    kept = list_kept(present)
    for victim in list(kept):
        if count_bytes([coming, *(found.image for found in kept)]) <= max_bytes:
            return True
        if victim.image.name not in needed and evict(program, victim):
            kept.remove(victim)
    return count_bytes([coming, *(found.image for found in kept)]) <= max_bytes


def evict(program: str, kept: Kept) -> bool:
    """Untag a pulled image; its last tag removes image and cached trees. Return False if the image is in use."""
    try:
        ask(program, ["rmi", kept.image.name])
    except UsageError:
        return False
    kept.file.unlink(missing_ok=True)
    for tree in cache_folder().glob(f"{name_trees(kept.image.identity)}*"):
        remove_tree(tree)
    return True


def name_trees(identity: str) -> str:
    """Return the prefix of the names of the folders in the cache that hold an image's working trees."""
    return f"image-{identity[:16]}-"


def _file_of(identity: str) -> Path:
    return cache_folder() / FOLDER / f"{identity}.json"
