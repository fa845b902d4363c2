"""A whole tree of files, listed, handed out and put in place by those who live in it, for hosts that cannot see it.

A tree travels as records: frames of a header that describes a file, a link or a folder, and a part of its content.
"""

# ruff: noqa: PTH101, PTH102, PTH103, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH211

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.shortage import SHORTAGES
from turnsmith.sandboxes.inside.wire import Header

MAX_ENTRIES = 400_000
"""A larger tree has no listing."""

FAULTS = {errno.EIO, *SHORTAGES}
"""Errors through the machine, or through those who use it up."""

_SHARED_MEMORY = "dev/shm"
"""The one mount that holds files of the sandbox."""
_SHOWN = (stat.S_ISREG, stat.S_ISLNK, stat.S_ISDIR, stat.S_ISFIFO)
"""A socket means nothing without the process that holds it; devices are not made here."""


def list_tree(root: str) -> bytes:
    """All below as lines of JSON: path, mode, size, times of change (content, anything), number if it has many names, is it ours.

    Raises OSError (E2BIG) for a tree whose listing would not fit in an answer.
    """
    us, listing = os.getuid(), bytearray()
    for num_entries, (path, of) in enumerate(_walk(root)):
        number = of.st_ino * (of.st_nlink > 1)
        entry = [path, of.st_mode, of.st_size, of.st_mtime_ns, of.st_ctime_ns, number, of.st_uid == us]
        listing += json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        if num_entries == MAX_ENTRIES or len(listing) > wire.MAX_FILE_BYTES:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return bytes(listing)


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Paths relative to the root; what is mounted below it, or changes meanwhile, is left out."""
    mounted = _mount_points()
    waiting = ["", _SHARED_MEMORY] if root == "/" else [""]
    while waiting:
        folder = waiting.pop()
        for entry in _scan(os.path.join(root, folder)):
            path = f"{folder}/{entry.name}" if folder else entry.name
            status = None if entry.path in mounted else _look_at(entry)
            if status:
                yield path, status
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)


@contextlib.contextmanager
def _overlooking_changes() -> Iterator[None]:
    """Leave the block where a path was removed, replaced or locked; what the machine lacks is no absence."""
    try:
        yield
    except OSError as error:
        if error.errno in FAULTS:
            raise


def _look_at(entry: os.DirEntry[str]) -> os.stat_result | None:
    with _overlooking_changes():
        status = entry.stat(follow_symlinks=False)
        if any(is_shown(status.st_mode) for is_shown in _SHOWN):
            return status
    return None


def _mount_points() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines}


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    """What a folder holds; one that is locked is opened, one that is gone is empty."""
    with _overlooking_changes():
        mode = stat.S_IMODE(Path(folder).stat().st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(PermissionError):  # it is not ours
                os.chmod(folder, mode | stat.S_IRWXU)
        with os.scandir(folder) as entries:
            yield from entries


def fetch(root: str, wanted: bytes) -> bytes:
    """Records of the wanted parts, each a header as JSON with the length of its content; what cannot be read is left out."""
    return b"".join(_records(root, json.loads(wanted)))


def _records(root: str, wanted: list[Header]) -> Iterator[bytes]:
    for header in wanted:
        with _overlooking_changes():
            yield wire.pack(header, _content(os.path.join(root, header["path"]), header))


def _content(place: str, header: Header) -> bytes:
    if stat.S_ISLNK(header["mode"]):
        return os.fsencode(os.readlink(place))[: header["length"]]
    if not header["length"]:
        return b""
    with open(_open_regular(place), "rb") as file:
        file.seek(header["offset"])
        return file.read(header["length"])


def _open_regular(place: str) -> int:
    """A file is opened though it is locked; what turned into a link or a pipe is not followed, nor waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(place, flags)
    except PermissionError:
        os.chmod(place, 0o600)
        return os.open(place, flags)


def unpack(root: str, records: bytes) -> bytes:
    """Put records in place; where one has no mode, take away what is there. Nobody else may be at work."""
    for header, content in wire.unpack(records):
        place = os.path.join(root, header["path"])
        if header["mode"]:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            _put(root, place, header, content)
        else:
            _remove(place)
    return b""


def _put(root: str, place: str, header: Header, content: bytes) -> None:
    mode = header["mode"]
    if stat.S_ISDIR(mode):
        _make_folder(place)
    elif header["offset"]:
        _write_at(place, header["offset"], content)
    else:
        _remove(place)
        _make(root, place, header, content)
    if not stat.S_ISLNK(mode):
        os.chmod(place, stat.S_IMODE(mode))
        os.utime(place, ns=(header["mtime_ns"], header["mtime_ns"]))


def _make(root: str, place: str, header: Header, content: bytes) -> None:
    """A new file, link or pipe."""
    mode = header["mode"]
    if header["same_as"]:
        os.link(os.path.join(root, header["same_as"]), place, follow_symlinks=False)
    elif stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(content), place)
    elif stat.S_ISFIFO(mode):
        os.mkfifo(place)
    else:
        Path(place).write_bytes(content)


def _write_at(place: str, offset: int, content: bytes) -> None:
    os.chmod(place, 0o600)
    with open(place, "r+b") as file:
        file.seek(offset)
        file.write(content)


def _make_folder(place: str) -> None:
    if os.path.islink(place) or not os.path.isdir(place):
        _remove(place)
        os.mkdir(place)


def _remove(place: str) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    else:
        Path(place).unlink(missing_ok=True)
