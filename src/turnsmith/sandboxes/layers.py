"""Stacked directories as overlayfs stacks them, read from the host without ever following a link out of them.

The upper layer of a sandbox was written by untrusted code: it is reached by descriptors only, and each step of a path
must be a real directory.
"""

# ruff: noqa: PTH101, PTH123, PTH208

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

EXCLUDED = {"__pycache__", ".pytest_cache", ".hypothesis"}
"""Names that never belong to a patch, besides `.git` in any spelling and `*.pyc`."""

MAX_FILE_BYTES = 16 << 20
"""A larger file is left out of a comparison."""

MAX_TOTAL_BYTES = 64 << 20
"""What one comparison reads; files past it, in order of their paths, are left out."""

MAX_DEPTH = 100
"""What lies below more directories than this is left out."""

_CHANGED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EOPNOTSUPP}
"""How a path answers that was removed, replaced or locked since it was listed."""

_OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")


@dataclass(frozen=True)
class File:
    """A file as git sees it."""

    mode: str
    """`100644`, `100755`, or `120000` for a link, whose content is its target."""
    content: bytes


@dataclass(frozen=True)
class Change:
    """A path relative to the working tree, and what stands there before and after; None where nothing does."""

    path: bytes
    old: File | None
    new: File | None


@dataclass(frozen=True)
class Place:
    """A path below an open directory. Two places are equal where they are the same file of the same layer."""

    root: int
    """Descriptor of the layer's top directory."""
    path: str = "."
    is_ours: bool = False
    """True where the layer is a sandbox's, so that its permissions may be widened to read it."""

    def child(self, name: str) -> "Place":
        return Place(self.root, f"{self.path}/{name}", self.is_ours)

    def open(self, flags: int) -> int:
        """Open what is here, one step of the path at a time and no links followed. Raises OSError."""
        *parents, name = PurePosixPath(self.path).parts or (".",)
        folder = os.dup(self.root)
        try:
            self._unlock(folder)
            for parent in parents:
                below = self._open_at(folder, parent, os.O_RDONLY | os.O_DIRECTORY)
                os.close(folder)
                folder = below
            return self._open_at(folder, name, flags)
        finally:
            os.close(folder)

    def _open_at(self, folder: int, name: str, flags: int) -> int:
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=folder)
        except PermissionError:
            if not self.is_ours:
                raise
            _make_readable(folder, name)
            fd = os.open(name, flags, dir_fd=folder)
        if flags & os.O_DIRECTORY:
            self._unlock(fd)
        return fd

    def _unlock(self, folder: int) -> None:
        """An open directory may still forbid to look up what it lists."""
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if self.is_ours and mode & 0o700 != 0o700:
            os.fchmod(folder, mode | 0o700)


def _make_readable(folder: int, name: str) -> None:
    """Give ourselves, the owner, the right to read what untrusted code has locked."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        os.chmod(f"/proc/self/fd/{handle}", mode | (0o700 if is_folder else 0o400))
    finally:
        os.close(handle)


@dataclass
class Node:
    """What stands under a name in a merged view: a file, or directories that merge, top first."""

    directories: tuple[Place, ...] = ()
    file: Place | None = None


def merge(directories: tuple[Place, ...]) -> dict[str, Node]:
    """The merged content of directories, top first: whiteouts hide what is below, opaque directories all of it."""
    nodes: dict[str, Node] = {}
    closed: set[str] = set()
    for directory in directories:
        for name, status in _entries(directory):
            if name in closed:
                continue
            place = directory.child(name)
            if stat.S_ISDIR(status.st_mode):
                nodes[name] = Node((*nodes.get(name, Node()).directories, place))
                if not _is_opaque(place):
                    continue
            elif name not in nodes and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                nodes[name] = Node(file=place)
            closed.add(name)
    return nodes


def _entries(directory: Place) -> Iterator[tuple[str, os.stat_result]]:
    with _overlooking_changes():
        fd = directory.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in sorted(os.listdir(fd)):
                with _overlooking_changes():
                    yield name, os.stat(name, dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)


@contextmanager
def _overlooking_changes() -> Iterator[None]:
    """Leave the block where untrusted code changed the path meanwhile; whatever else fails is the machine's fault."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CHANGED:
            raise


def _is_opaque(place: Place) -> bool:
    with _overlooking_changes():
        fd = place.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            return any(name in os.listxattr(fd) and os.getxattr(fd, name) == b"y" for name in _OPAQUE)
        finally:
            os.close(fd)
    return False


@dataclass
class Comparison:
    """Walks two stacks side by side and collects what differs; subtrees that are the same places are not entered."""

    changes: list[Change] = field(default_factory=list)
    budget_bytes: int = MAX_TOTAL_BYTES

    def walk(self, old: tuple[Place, ...], new: tuple[Place, ...], path: str = "") -> None:
        """Compare two merged directories and all below them, in order of names."""
        waiting = [(path, Node(old), Node(new))]
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
            old, new = (self._read(place) if place else None for place in (before, after))
        except _TooLargeError:
            return
        if old != new:
            self.changes.append(Change(os.fsencode(path), old, new))

    def _read(self, place: Place) -> File | None:
        """A file within the budget; None where it vanished or was replaced while we looked."""
        with _overlooking_changes():
            fd = place.open(os.O_PATH)
            try:
                mode = os.fstat(fd).st_mode
                if stat.S_ISLNK(mode):
                    return File("120000", os.fsencode(os.readlink("", dir_fd=fd)))
            finally:
                os.close(fd)
            return self._read_regular(place)
        return None

    def _read_regular(self, place: Place) -> File:
        fd = place.open(os.O_RDONLY)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if status.st_size > min(MAX_FILE_BYTES, self.budget_bytes):
                raise _TooLargeError
            content = file.read(MAX_FILE_BYTES)
        self.budget_bytes -= len(content)
        return File("100755" if status.st_mode & stat.S_IXUSR else "100644", content)


class _TooLargeError(Exception):
    """A file passes the limits of a comparison."""


def _pair(path: str, before: Node, after: Node) -> list[tuple[str, Node, Node]]:
    """The children of two directories by name, without those that no patch shows."""
    old, new = merge(before.directories), merge(after.directories)
    names = sorted(name for name in old.keys() | new.keys() if not is_excluded(name))
    return [(f"{path}/{name}" if path else name, old.get(name, Node()), new.get(name, Node())) for name in names]


def is_excluded(name: str) -> bool:
    return name in EXCLUDED or name.endswith(".pyc") or name.lower() == ".git"


def compare(layers: tuple[Path, ...], upper: int, *, stacked: bool) -> list[Change]:
    """Changes from the layers, lowest first, to the tree at descriptor `upper`: laid over them, or complete in itself."""
    roots = [os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for layer in layers]
    try:
        old = tuple(Place(root) for root in reversed(roots))
        top = Place(upper, is_ours=True)
        comparison = Comparison()
        comparison.walk(old, (top, *old) if stacked else (top,))
        return comparison.changes
    finally:
        for root in roots:
            os.close(root)


def copy_merged(layers: tuple[Path, ...], target: Path) -> None:
    """Write the merged view of the layers, lowest first, into an empty directory."""
    roots = {os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC): layer for layer in layers}
    try:
        waiting = [(tuple(Place(root) for root in reversed(roots)), target)]
        while waiting:
            directories, folder = waiting.pop()
            folder.mkdir(exist_ok=True)
            for name, node in merge(directories).items():
                if node.file:
                    shutil.copy2(roots[node.file.root] / node.file.path, folder / name, follow_symlinks=False)
                else:
                    waiting.append((node.directories, folder / name))
    finally:
        for root in roots:
            os.close(root)
