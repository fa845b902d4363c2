"""Temporary folders that are removed when their process ends. If it is killed, a later process removes them.

A process locks its folder (flock) while it uses it, so other processes can tell which folders are abandoned.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.io.files import lock


@contextmanager
def temporary_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder whose name starts with `purpose`, and remove it at the end. Raises OSError, UsageError.

    In a given `parent`, abandoned folders whose names start with `purpose` are removed, so nothing else may have such names.
    """
    place = parent or find_place()
    sweep(place, f"{purpose}-" if parent else "")
    with ExitStack() as held:
        with ExitStack() as making:
            # This lock stops sweeps of this user until the new folder has its own lock.
            _lock(find_place(), fcntl.LOCK_SH, making)
            folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=place))
            _lock(folder, fcntl.LOCK_EX, held)
        held.callback(remove_tree, folder)
        yield folder


def find_place() -> Path:
    """Create the folder that holds this user's temporary folders. Raises UsageError if another user owns it."""
    place = Path(tempfile.gettempdir(), f"turnsmith-{os.geteuid()}")
    place.mkdir(mode=0o700, exist_ok=True)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UsageError(f"{place} is not a folder that you own: remove it, or set TMPDIR to another folder")
    return place


@cache
def sweep(place: Path, prefix: str) -> None:
    """Remove folders of killed processes in `place` whose names start with `prefix`, unless a process is creating one now."""
    with ExitStack() as held:
        with ExitStack() as looking:
            if not _lock(find_place(), fcntl.LOCK_EX | fcntl.LOCK_NB, looking):
                return
            folders = [folder for folder in place.glob(f"{prefix}*") if folder.is_dir() and not folder.is_symlink()]
            abandoned = [folder for folder in folders if _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB, held)]
        for folder in abandoned:
            remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content, even if its subfolders are read-only. Symlinks are not followed; errors are ignored."""
    for path, names, _ in os.walk(folder):
        for below in (Path(path, name) for name in names):
            if not below.is_symlink():
                with suppress(OSError):  # owned by another user, or just removed
                    below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path, kind: int, held: ExitStack) -> bool:
    """Lock a folder by flock (flags: `kind`) until `held` closes. Return False if another process holds it or flock fails."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, opened)
    return lock(opened, kind)
