"""What differs between two stacks of directories, within what a patch may hold."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from turnsmith.sandboxes.layers import Node, Place, open_layers, overlooking_changes, walk

EXCLUDED = {"__pycache__", ".pytest_cache", ".hypothesis"}
"""Names that never belong to a patch, besides `.git` in any spelling and `*.pyc`."""

MAX_BYTES = 16 << 20
"""What the files of a comparison hold together; those past it, in order of their paths, are left out."""

MAX_DEPTH = 100
"""What lies below more directories than this is left out."""


@dataclass(frozen=True)
class GitFile:
    """A file as git sees it."""

    mode: str
    """`100644`, `100755`, or `120000` for a link, whose content is its target."""
    content: bytes


@dataclass(frozen=True)
class Change:
    """A path relative to the working tree, and what stands there before and after; None where nothing does."""

    path: bytes
    old: GitFile | None
    new: GitFile | None


def compare(layers: tuple[Path, ...], written: Place, *, is_stacked: bool) -> list[Change]:
    """Changes from the layers, lowest first, to a directory: laid over them, or complete in itself. Raises OSError.

    What the host may not read is left out, in silence.
    """
    changes: list[Change] = []
    budget = MAX_BYTES
    with open_layers(layers) as roots:
        old = tuple(map(Place, reversed(roots)))
        new = (written, *old) if is_stacked else (written,)
        for path, before, after in walk(Node(old), Node(new), _belongs):
            with overlooking_changes():
                files = [read_file(node.file, budget) if node.file else None for node in (before, after)]
                if files[0] != files[1]:
                    changes.append(Change(os.fsencode(path), *files))
                    budget -= sum(len(file.content) for file in files if file)
    return changes


def _belongs(path: str) -> bool:
    return path.count("/") <= MAX_DEPTH and not is_excluded(path.rpartition("/")[2])


def is_excluded(name: str) -> bool:
    """Does nothing of that name belong to a patch?"""
    return name in EXCLUDED or name.endswith(".pyc") or name.lower() == ".git"


def read_file(place: Place, max_bytes: int) -> GitFile | None:
    """What is there, None where it is no file any longer. Raises OSError, EFBIG where it is larger."""
    with place.reached() as fd:
        status = os.fstat(fd)
        if stat.S_ISLNK(status.st_mode):
            return GitFile("120000", os.fsencode(os.readlink("", dir_fd=fd)))
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with Path(f"/proc/self/fd/{fd}").open("rb") as file:
            return GitFile("100755" if status.st_mode & stat.S_IXUSR else "100644", file.read(max_bytes))
