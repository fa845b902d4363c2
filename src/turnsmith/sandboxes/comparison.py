"""What differs between two stacks of directories, within what a patch may hold."""

# ruff: noqa: PTH123

import os
import stat
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.sandboxes.layers import Locks, Node, Place, merge, open_layers, overlooking_changes

EXCLUDED = {"__pycache__", ".pytest_cache", ".hypothesis"}
"""Names that never belong to a patch, besides `.git` in any spelling and `*.pyc`."""

MAX_FILE_BYTES = 16 << 20
"""A larger file is left out of a comparison."""

MAX_TOTAL_BYTES = 64 << 20
"""What one comparison reads; files past it, in order of their paths, are left out."""

MAX_DEPTH = 100
"""What lies below more directories than this is left out."""


@dataclass(frozen=True)
class GitFile:
    """A file as git sees it."""

    mode: str
    """`100644`, `100755`, or `120000` for a link, whose content is its target."""
    content: bytes


def _git_mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & stat.S_IXUSR else "100644"


@dataclass(frozen=True)
class Change:
    """A path relative to the working tree, and what stands there before and after; None where nothing does."""

    path: bytes
    old: GitFile | None
    new: GitFile | None


@dataclass
class TreeComparison:
    """Walks two stacks side by side and collects what differs; subtrees that are the same places are not entered."""

    changes: list[Change] = field(default_factory=list)
    budget_bytes: int = MAX_TOTAL_BYTES

    def walk(self, old: tuple[Place, ...], new: tuple[Place, ...]) -> None:
        """Compare two merged directories and all below them, in order of names."""
        waiting = [("", Node(old), Node(new))]
        while waiting:
            path, before, after = waiting.pop()
            if before == after:
                continue
            if before.file or after.file:
                self._compare(path, before.file, after.file)
            if (before.directories or after.directories) and path.count("/") < MAX_DEPTH:
                waiting.extend(reversed(_pair(path, before, after)))

    def _compare(self, path: str, before: Place | None, after: Place | None) -> None:
        try:
            old, new = (self.read(place) if place else None for place in (before, after))
        except _TooLargeError:
            return
        if old != new:
            self.changes.append(Change(os.fsencode(path), old, new))

    def read(self, place: Place) -> GitFile | None:
        """A file within the budget; None where it vanished or was replaced while we looked."""
        with overlooking_changes():
            fd = place.open(os.O_PATH)
            try:
                mode = os.fstat(fd).st_mode
                if stat.S_ISLNK(mode):
                    return GitFile(_git_mode(mode), os.fsencode(os.readlink("", dir_fd=fd)))
            finally:
                os.close(fd)
            return self._read_regular(place)
        return None

    def _read_regular(self, place: Place) -> GitFile | None:
        fd = place.open(os.O_RDONLY)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):  # replaced since we looked
            os.close(fd)
            return None
        with open(fd, "rb") as file:
            if status.st_size > min(MAX_FILE_BYTES, self.budget_bytes):
                raise _TooLargeError
            content = file.read(MAX_FILE_BYTES)
        self.budget_bytes -= len(content)
        return GitFile(_git_mode(status.st_mode), content)


class _TooLargeError(Exception):
    """A file passes the limits of a comparison."""


def _pair(path: str, before: Node, after: Node) -> list[tuple[str, Node, Node]]:
    """The children of two directories by name, without those that no patch shows."""
    old, new = merge(before.directories), merge(after.directories)
    names = sorted(name for name in old.keys() | new.keys() if not is_excluded(name))
    return [(f"{path}/{name}" if path else name, old.get(name, Node()), new.get(name, Node())) for name in names]


def is_excluded(name: str) -> bool:
    """Does nothing of that name belong to a patch?"""
    return name in EXCLUDED or name.endswith(".pyc") or name.lower() == ".git"


def compare(layers: tuple[Path, ...], holder: int, name: str = ".", *, is_stacked: bool) -> list[Change]:
    """Changes from the layers, lowest first, to a folder by its name in an open one: laid over them, or complete in itself."""
    with open_layers(layers) as roots, closing(Locks()) as locks:
        old = tuple(Place(root) for root in reversed(roots))
        new = Place(holder, name, locks)
        comparison = TreeComparison()
        comparison.walk(old, (new, *old) if is_stacked else (new,))
        return comparison.changes
