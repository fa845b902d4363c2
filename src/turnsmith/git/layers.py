"""Reader of stacked directories (layers) that overlayfs merges to a working tree. It runs on the host.

Untrusted code writes the upper layer. So paths are opened component by component, and symlinks are never followed.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_SKIPPED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EOPNOTSUPP, errno.EFBIG}
"""Errors at which a path is skipped: it is unreadable, too large, or changed since its folder was listed."""

_OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")
"""Extended attributes by which overlayfs marks a directory that hides all lower entries."""


@dataclass(frozen=True)
class Place:
    """Position of a file: a layer, given by an open descriptor, and a path in it. Equal positions are the same file."""

    root: int
    """Descriptor of the layer's top directory."""
    path: str = "."

    @contextmanager
    def reached(self) -> Iterator[int]:
        """Open the path as an O_PATH descriptor, component by component, without following symlinks. Raises OSError."""
        with ExitStack() as held:
            here = self.root
            for name in PurePosixPath(self.path).parts:
                here = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                held.callback(os.close, here)
            yield here


@dataclass
class Node:
    """Entry of the merged layers: a file, or directories of one name in several layers (top first). Empty if missing."""

    directories: tuple[Place, ...] = ()
    file: Place | None = None


def merge(directories: tuple[Place, ...]) -> dict[str, Node]:
    """Merge directories, top first; return name → entry. A whiteout hides its name below, an opaque directory all names."""
    nodes: dict[str, Node] = {}
    closed: set[str] = set()
    for directory in directories:
        with directory.reached() as fd:
            listed = f"/proc/self/fd/{fd}"
            for entry in os.scandir(listed):
                name, place = entry.name, Place(directory.root, f"{directory.path}/{entry.name}")
                if name in closed:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    nodes[name] = Node((*nodes.get(name, Node()).directories, place))
                    continue
                if name not in nodes and (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                    nodes[name] = Node(file=place)
                closed.add(name)
            if _is_opaque(listed):
                break
    return nodes


def _is_opaque(directory: str) -> bool:
    with skipping_unreadable():
        return any(name in os.listxattr(directory) and os.getxattr(directory, name) == b"y" for name in _OPAQUE)
    return False  # the file system has no extended attributes


def walk(before: Node, after: Node, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Node, Node]]:
    """Walk two merged trees in name order; yield path and both entries. Skip equal entries and paths that are not wanted."""
    waiting = [("", before, after)]
    while waiting:
        path, old, new = waiting.pop()
        if old == new:
            continue
        yield path, old, new
        with skipping_unreadable():
            olds, news = merge(old.directories), merge(new.directories)
            for name in sorted(olds.keys() | news.keys(), reverse=True):
                if is_wanted(below := f"{path}/{name}" if path else name):
                    waiting.append((below, olds.get(name, Node()), news.get(name, Node())))


@contextmanager
def skipping_unreadable() -> Iterator[None]:
    """Leave the block silently at an OSError that shows an unreadable or changed path; re-raise other errors."""
    try:
        yield
    except OSError as error:
        if error.errno not in _SKIPPED:
            raise


def copy_merged(layers: tuple[Path, ...], target: Path) -> None:
    """Merge layers, given lowest first, and copy the merged tree into the directory `target`."""
    target.mkdir(exist_ok=True)
    for path, source in walk_merged(layers):
        if source.is_dir() and not source.is_symlink():
            (target / path).mkdir(exist_ok=True)
        else:
            shutil.copy2(source, target / path, follow_symlinks=False)


def walk_merged(layers: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """Yield every path of the merged layers (given lowest first) with the path of its file on disk; parents before children."""
    with open_layers(layers) as roots:
        everything = walk(Node(), Node(tuple(map(Place, reversed(roots)))), lambda path: True)
        next(everything, None)  # the top itself
        for path, _, node in everything:
            place = node.file or node.directories[0]
            yield path, roots[place.root] / place.path


@contextmanager
def open_layers(layers: tuple[Path, ...]) -> Iterator[dict[int, Path]]:
    """Open the layers' top directories, given lowest first; yield descriptor → directory."""
    with ExitStack() as opened:
        roots = {}
        for layer in layers:
            root = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            roots[root] = layer
        yield roots
