"""Stacked directories as overlayfs stacks them, read from the host without ever following a link out of them.

The upper layer of a sandbox was written by untrusted code: it is reached by descriptors only, and each step of a path
must be a real directory.
"""

# ruff: noqa: PTH101, PTH123, PTH208

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from threading import Lock

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

_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_SHARED = Lock()
"""One at a time reads what several sandboxes stand on: what one has opened, another must not lock meanwhile."""

_OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")


@dataclass(frozen=True)
class File:
    """A file as git sees it."""

    mode: str
    """`100644`, `100755`, or `120000` for a link, whose content is its target."""
    content: bytes


def git_mode(mode: int) -> str:
    """The mode of a link or a regular file, as git writes it."""
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & stat.S_IXUSR else "100644"


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
    locks: "Locks | None" = field(default=None, compare=False)
    """Where the layer is a sandbox's, so that its permissions may be widened to read it."""

    def child(self, name: str) -> "Place":
        return Place(self.root, f"{self.path}/{name}", self.locks)

    def open(self, flags: int) -> int:
        """Open what is here, one step of the path at a time and no links followed. Raises OSError."""
        *parents, _ = PurePosixPath(self.path).parts or (".",)
        folder, place = os.dup(self.root), Place(self.root, locks=self.locks)
        try:
            place._unlock(folder)
            for parent in parents:
                place = place.child(parent)
                below = place._open_in(folder, os.O_RDONLY | os.O_DIRECTORY)
                os.close(folder)
                folder = below
            return self._open_in(folder, flags)
        finally:
            os.close(folder)

    def _open_in(self, folder: int, flags: int) -> int:
        """The last step."""
        name = PurePosixPath(self.path).name or "."
        flags |= _CAREFULLY
        try:
            fd = os.open(name, flags, dir_fd=folder)
        except PermissionError:
            if not self.locks:
                raise
            self.locks.open(self, os.open(name, os.O_PATH | _CAREFULLY, dir_fd=folder))
            fd = os.open(name, flags, dir_fd=folder)
        if flags & os.O_DIRECTORY:
            self._unlock(fd)
        return fd

    def _unlock(self, folder: int) -> None:
        """An open directory may still forbid to look up what it lists."""
        if self.locks and not os.access(".", os.R_OK | os.X_OK, dir_fd=folder, effective_ids=True):
            self.locks.open(self, os.dup(folder))


@dataclass
class Locks:
    """What untrusted code has locked, itself included: opened while it is read, and in the end as it was."""

    _opened: list[tuple[Place, int]] = field(default_factory=list)

    def open(self, place: Place, handle: int) -> None:
        """Give ourselves, the owner, the right to read; takes the descriptor over."""
        try:
            status = os.fstat(handle)
            mode = stat.S_IMODE(status.st_mode)
            os.chmod(f"/proc/self/fd/{handle}", mode | (0o700 if stat.S_ISDIR(status.st_mode) else 0o400))
            self._opened.append((place, mode))
        finally:
            os.close(handle)

    def close(self) -> None:
        """Lock it again, the innermost first."""
        for place, mode in reversed(self._opened):
            with _overlooking_changes():
                handle = place.open(os.O_PATH)
                try:
                    os.chmod(f"/proc/self/fd/{handle}", mode)
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
            old, new = (self.read(place) if place else None for place in (before, after))
        except _TooLargeError:
            return
        if old != new:
            self.changes.append(Change(os.fsencode(path), old, new))

    def read(self, place: Place) -> File | None:
        """A file within the budget; None where it vanished or was replaced while we looked."""
        with _overlooking_changes():
            fd = place.open(os.O_PATH)
            try:
                mode = os.fstat(fd).st_mode
                if stat.S_ISLNK(mode):
                    return File(git_mode(mode), os.fsencode(os.readlink("", dir_fd=fd)))
            finally:
                os.close(fd)
            return self._read_regular(place)
        return None

    def _read_regular(self, place: Place) -> File | None:
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
        return File(git_mode(status.st_mode), content)


class _TooLargeError(Exception):
    """A file passes the limits of a comparison."""


def _pair(path: str, before: Node, after: Node) -> list[tuple[str, Node, Node]]:
    """The children of two directories by name, without those that no patch shows."""
    old, new = merge(before.directories), merge(after.directories)
    names = sorted(name for name in old.keys() | new.keys() if not is_excluded(name))
    return [(f"{path}/{name}" if path else name, old.get(name, Node()), new.get(name, Node())) for name in names]


def is_excluded(name: str) -> bool:
    return name in EXCLUDED or name.endswith(".pyc") or name.lower() == ".git"


def compare(layers: tuple[Path, ...], written: Sequence[int], folder: str = ".", *, stacked: bool) -> list[Change]:
    """Changes from the layers, lowest first, to what was written, newest first: laid over them, or complete in itself.

    `written` are open directories in each of which `folder` holds what is compared.
    """
    with _SHARED if len(written) > 1 else nullcontext(), _opened(layers) as roots, closing(Locks()) as locks:
        old = tuple(Place(root) for root in reversed(roots))
        new = tuple(Place(root, folder, locks) for root in written)
        comparison = Comparison()
        comparison.walk(old, (*new, *old) if stacked else new)
        return comparison.changes


def copy_merged(layers: tuple[Path, ...], target: Path) -> None:
    """Write the merged view of the layers, lowest first, into a directory."""
    target.mkdir(exist_ok=True)
    for path, source in walk_merged(layers):
        if source.is_dir() and not source.is_symlink():
            (target / path).mkdir(exist_ok=True)
        else:
            shutil.copy2(source, target / path, follow_symlinks=False)


def walk_merged(layers: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """All of the merged view of the layers, lowest first: each path, and where it lies; a folder before what it holds."""
    with _opened(layers) as roots:
        waiting = [("", tuple(Place(root) for root in reversed(roots)))]
        while waiting:
            folder, directories = waiting.pop()
            for name, node in merge(directories).items():
                path = f"{folder}/{name}" if folder else name
                place = node.file or node.directories[0]
                yield path, roots[place.root] / place.path
                if not node.file:
                    waiting.append((path, node.directories))


def read_files(layers: tuple[Path, ...], paths: Iterable[str]) -> dict[str, File]:
    """Those of the paths at which the merged view of the layers, lowest first, has a file."""
    with _opened(layers) as roots:
        top = Node(tuple(Place(root) for root in reversed(roots)))
        comparison = Comparison()

        @cache
        def find(path: str) -> Node:
            folder, _, name = path.rpartition("/")
            return list_folder(folder).get(name, Node())

        @cache
        def list_folder(folder: str) -> dict[str, Node]:
            return merge((find(folder) if folder else top).directories)

        found = {path: comparison.read(place) for path in paths if (place := find(path).file)}
        return {path: file for path, file in found.items() if file}


@contextmanager
def _opened(layers: tuple[Path, ...]) -> Iterator[dict[int, Path]]:
    """Descriptors of the layers' top directories, lowest first."""
    with ExitStack() as opened:
        roots = {}
        for layer in layers:
            root = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            roots[root] = layer
        yield roots
