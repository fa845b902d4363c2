"""An exact copy of a tree in which nobody writes: modes, times, links of both kinds, pipes; also of what is locked."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


def copy_exactly(source: Path, target: Path) -> None:
    """Copy a folder to where nothing stands. Raises OSError."""
    links: dict[int, Path] = {}
    with ExitStack() as copied:  # which ends with the innermost folder: times and locks come after what is in it
        waiting = [(source, target)]
        while waiting:
            source, target = waiting.pop()
            copied.enter_context(_copied_folder(source, target))
            for below in source.iterdir():
                if below.is_dir() and not below.is_symlink():
                    waiting.append((below, target / below.name))
                else:
                    _copy_file(below, target / below.name, links)


@contextmanager
def _copied_folder(source: Path, target: Path) -> Iterator[None]:
    """Make the folder; both can be entered until the end."""
    with _unlocked(source, stat.S_IRWXU) as status:
        target.mkdir()
        yield
    target.chmod(stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(source: Path, target: Path, links: dict[int, Path]) -> None:
    status = source.lstat()
    if status.st_ino in links:
        os.link(links[status.st_ino], target, follow_symlinks=False)
        return
    if status.st_nlink > 1:
        links[status.st_ino] = target
    if stat.S_ISREG(status.st_mode):
        with _unlocked(source, stat.S_IRUSR):
            shutil.copyfile(source, target)
        target.chmod(stat.S_IMODE(status.st_mode))
    elif stat.S_ISLNK(status.st_mode):
        target.symlink_to(source.readlink())
    else:
        os.mknod(target, status.st_mode, status.st_rdev)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


@contextmanager
def _unlocked(path: Path, rights: int) -> Iterator[os.stat_result]:
    """Have these rights meanwhile, as the owner may."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & rights != rights:
        path.chmod(mode | rights)
    try:
        yield status
    finally:
        if mode & rights != rights:
            path.chmod(mode)
