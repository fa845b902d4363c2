"""Stacked directories as overlayfs stacks them, read from the host without ever following a link out of them.

The upper layer of a sandbox was written by untrusted code: it is reached by descriptors only, and each step of a path
must be a real directory.
"""

# ruff: noqa: PTH101, PTH208

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_CHANGED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EOPNOTSUPP}
"""How a path answers that was removed, replaced or locked since it was listed."""

_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")


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
            with overlooking_changes():
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
    with overlooking_changes():
        fd = directory.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in sorted(os.listdir(fd)):
                with overlooking_changes():
                    yield name, os.stat(name, dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)


@contextmanager
def overlooking_changes() -> Iterator[None]:
    """Leave the block where untrusted code changed the path meanwhile; whatever else fails is the machine's fault."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CHANGED:
            raise


def _is_opaque(place: Place) -> bool:
    with overlooking_changes():
        fd = place.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            return any(name in os.listxattr(fd) and os.getxattr(fd, name) == b"y" for name in _OPAQUE)
        finally:
            os.close(fd)
    return False


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
    with open_layers(layers) as roots:
        waiting = [("", tuple(Place(root) for root in reversed(roots)))]
        while waiting:
            folder, directories = waiting.pop()
            for name, node in merge(directories).items():
                path = f"{folder}/{name}" if folder else name
                place = node.file or node.directories[0]
                yield path, roots[place.root] / place.path
                if not node.file:
                    waiting.append((path, node.directories))


@contextmanager
def open_layers(layers: tuple[Path, ...]) -> Iterator[dict[int, Path]]:
    """Descriptors of the layers' top directories, lowest first."""
    with ExitStack() as opened:
        roots = {}
        for layer in layers:
            root = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            roots[root] = layer
        yield roots
