"""One digest for all that a layer holds."""

import hashlib
import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

KIND_AND_EXECUTABLE = 0o170100


@cache
def digest_layer(layer: Path) -> str:
    """SHA-256 of the names, kinds, modes and contents of a layer; read once by a process."""
    digest = hashlib.sha256()
    for path, status in _list(layer):
        name, mode = os.fsencode(path.relative_to(layer)), b"%o" % (status.st_mode & KIND_AND_EXECUTABLE)
        for part in (name, mode, _content(path, status)):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def _list(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder, in order of names."""
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _list(path)


def _content(path: Path, status: os.stat_result) -> bytes:
    """What a file holds, where a link leads, what overlayfs is told of a folder."""
    if stat.S_ISREG(status.st_mode):
        return path.read_bytes()
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(path.readlink())
    marks = [name for name in os.listxattr(path, follow_symlinks=False) if ".overlay." in name]
    return " ".join(sorted(marks)).encode()
