"""Layers of the host as detached read-only mounts, whose files are the sandbox user's own."""

import errno
import itertools
import os
import shutil
import signal
import stat
from functools import cache
from pathlib import Path

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import Identity, name_user

MAX_BYTES = 4 << 30
"""What all copies together may hold; the newest stays whatever its size."""


class Layers:
    """Shows what belongs to others as the identity's, by the mount; where its file system cannot, by a copy in memory.

    Each copy is a file system of its own, so that one dropped lives on as long as a sandbox is mounted over it.
    """

    def __init__(self, identity: Identity, folder: Path = Path(root.COPIES), max_bytes: int = MAX_BYTES) -> None:
        self._identity = identity
        self._folder = folder
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        self.copies: dict[str, Path] = {}
        """From layer to copy, the least recently used first."""

    def open(self, path: str) -> int:
        """Descriptor of a mount that is nowhere yet. Raises OSError."""
        source = root.HOST + path
        if not self._identity.is_foreign:
            return _clone(source)
        if source not in self.copies:
            try:
                owner = Path(source).stat()
                ownership_map = _open_ownership_map(owner.st_uid, owner.st_gid, self._identity)
                return _clone(source, kernel.MOUNT_ATTR_IDMAP, ownership_map)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        return _clone(self.copy(source))  # a file system that cannot, such as a container's own

    def copy(self, source: str) -> str:
        """The copy of a layer, made where there is none; those unused for longest make room. Raises OSError."""
        self.copies[source] = copied = self.copies.pop(source, None) or self._make(source)
        while len(self.copies) > 1 and sum(map(_size_bytes, self.copies.values())) > self._max_bytes:
            _drop(self.copies.pop(next(iter(self.copies))))
        return str(copied)

    def _make(self, source: str) -> Path:
        target = self._folder / str(next(self._numbers))
        target.mkdir()
        kernel.mount("copy", str(target), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
        try:
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)
            for path in (target, *target.rglob("*")):
                os.chown(path, self._identity.uid, self._identity.gid, follow_symlinks=False)
        except OSError:
            _drop(target)
            raise
        return target


def _clone(source: str, attributes: int = 0, ownership_map: int = 0) -> int:
    tree = kernel.clone_tree(source)
    try:
        kernel.set_mount_attributes(tree, root.SAFE | attributes, ownership_map)
    except OSError:
        os.close(tree)
        raise
    return tree


@cache
def _open_ownership_map(owner_uid: int, owner_gid: int, identity: Identity) -> int:
    """A user namespace, as a descriptor, that shows files of the owner as files of the identity (for mounts only)."""
    pid = kernel.fork_into(kernel.CLONE_NEWUSER)
    if pid == 0:
        signal.pause()
    try:
        name_user(pid, owner_uid, owner_gid, identity)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)


def _copy_file(source: str, target: str) -> None:
    """Copy a regular file, or what hides one of the layer below; nothing else is opened, since it may never end."""
    status = os.lstat(source)
    if stat.S_ISREG(status.st_mode):
        shutil.copy2(source, target)
    elif stat.S_ISCHR(status.st_mode) and not status.st_rdev:
        os.mknod(target, status.st_mode)


def _drop(copy: Path) -> None:
    """Let go of the file system; the kernel frees it once nobody uses it."""
    kernel.detach(str(copy))
    copy.rmdir()


def _size_bytes(copy: Path) -> int:
    status = os.statvfs(copy)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
