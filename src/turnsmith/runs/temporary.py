"""Temporary folders that end with their process: what a killed one left behind is removed by the next to start.

Whoever makes a folder holds a lock on it (flock) for as long as it lives, so that whoever sweeps can tell what is in use.
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
    """A new folder named after its purpose, removed at the end if it is still there. Raises OSError, UsageError.

    Below a parent of the caller's choice a purpose must be a name that nobody else gives: such folders are swept there.
    """
    place = parent or find_place()
    sweep(place, f"{purpose}-" if parent else "")
    with ExitStack() as held:
        with ExitStack() as making:
            # As long as this is held nobody of this user sweeps, so that nobody finds the folder without its lock.
            _lock(find_place(), fcntl.LOCK_SH, making)
            folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=place))
            _lock(folder, fcntl.LOCK_EX, held)
        held.callback(remove_tree, folder)
        yield folder


def find_place() -> Path:
    """Where all temporary folders of this user are. Raises UsageError where somebody else has taken the name."""
    place = Path(tempfile.gettempdir(), f"turnsmith-{os.geteuid()}")
    place.mkdir(mode=0o700, exist_ok=True)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UsageError(f"{place} is not a folder of this user: remove it, or set TMPDIR to another folder")
    return place


@cache
def sweep(place: Path, prefix: str) -> None:
    """Remove the folders whose makers are gone; once in a process for each place and prefix.

    None is removed where somebody is making one at this moment.
    """
    with ExitStack() as held:
        with ExitStack() as looking:
            if not _lock(find_place(), fcntl.LOCK_EX | fcntl.LOCK_NB, looking):
                return
            folders = [folder for folder in place.glob(f"{prefix}*") if folder.is_dir() and not folder.is_symlink()]
            abandoned = [folder for folder in folders if _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB, held)]
        for folder in abandoned:
            remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Remove a tree whatever it forbids its owner, as far as that is possible; links are not followed."""
    for path, names, _ in os.walk(folder):
        for below in (Path(path, name) for name in names):
            if not below.is_symlink():
                with suppress(OSError):  # somebody else's, or just gone
                    below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path, kind: int, held: ExitStack) -> bool:
    """Lock a folder until the end of `held`; False where somebody else has, or the file system knows no locks."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, opened)
    return lock(opened, kind)
