"""Read-only mounts of host folders for sandboxes, in which all files belong to the sandbox's user."""

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
from turnsmith.sandboxes.inside.local.identity import Identity, map_user

MAX_BYTES = 4 << 30
"""Maximum total size of host folders copied to memory, in bytes; the newest copy is kept at any size."""


class Layers:
    """Factory of mounts of host folders. The sandbox's user owns their files, by id-mapped mounts or copies in memory.

    Each copy is a separate file system, which the kernel keeps until the last sandbox has unmounted it.
    """

    def __init__(self, identity: Identity, folder: Path = Path(root.COPIES), max_bytes: int = MAX_BYTES) -> None:
        self._identity = identity
        self._folder = folder
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        self.copies: dict[str, Path] = {}
        """Host folder → folder of its copy in memory, least recently used first."""

    def open(self, path: str) -> int:
        """Return a detached mount of a host folder, as a file descriptor. Raises OSError."""
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
        return _clone(self.copy(source))  # the file system has no id-mapped mounts, such as a container's root

    def copy(self, source: str) -> str:
        """Return the copy of a host folder in memory. Drop the least recently used copies while their total exceeds `max_bytes`.

        Raises OSError.
        """
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
    """Return the descriptor of a new user namespace for id-mapped mounts: files of the owner appear as files of `identity`."""
    pid = kernel.fork_into(kernel.CLONE_NEWUSER)
    if pid == 0:
        signal.pause()
    try:
        map_user(pid, owner_uid, owner_gid, identity)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)


def _copy_file(source: str, target: str) -> None:
    """Copy a regular file or a whiteout of overlayfs. Skip other files, such as pipes, whose reading may never end."""
    status = os.lstat(source)
    if stat.S_ISREG(status.st_mode):
        shutil.copy2(source, target)
    elif stat.S_ISCHR(status.st_mode) and not status.st_rdev:
        os.mknod(target, status.st_mode)


def _drop(copy: Path) -> None:
    """Detach the file system of a copied folder; the kernel frees its memory after the last use."""
    kernel.detach(str(copy))
    copy.rmdir()


def _size_bytes(copy: Path) -> int:
    status = os.statvfs(copy)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
