"""The tree that the layers of a task make, as files on this machine: where each lies, and a digest of them all."""

import hashlib
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turnsmith.sandboxes.layers import walk_merged

ZIPS = (".whl", ".egg", ".zip", ".jar")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ARCHIVES = (*ZIPS, *TARS)
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError)
"""What readers of archives raise at broken, encrypted or unknown ones."""
MAX_MEMBER_BYTES = 64 << 20
"""A larger member of an archive is passed over."""
_KIND_AND_EXECUTABLE = 0o170100


@dataclass(frozen=True)
class LayerDigest:
    """What a layer holds, in short."""

    sha256: str
    num_bytes: int


def find_files(layers: Sequence[Path]) -> dict[str, Path]:
    """The regular files of the stacked tree by path; what links lead to is found at its own place."""
    return {path: file for path, file in find_entries(layers).items() if not file.is_symlink()}


def find_entries(layers: Sequence[Path]) -> dict[str, Path]:
    """The regular files and links of the stacked tree by path."""
    held = walk_merged(tuple(layers))
    return {path: place for path, place in held if place.is_symlink() or not place.is_dir()}


def is_archive(path: str) -> bool:
    return path.endswith(ARCHIVES)


def unpack(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """A file, and the files in it where it is an archive that can be read: `("a.whl", …)`, `("a.whl!pkg/x.py", …)`."""
    yield name, content
    if is_archive(name):
        try:
            for member, inner in _open_zip(content) if name.endswith(ZIPS) else _open_tar(content):
                yield f"{name}!{member}", inner
        except BROKEN:
            return  # broken, encrypted or of an unknown method: an agent cannot read it by ordinary means either


def _open_zip(content: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            if member.file_size <= MAX_MEMBER_BYTES:
                yield member.filename, archive.read(member)


def _open_tar(content: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            inner = archive.extractfile(member) if member.size <= MAX_MEMBER_BYTES else None
            if inner:
                yield member.name, inner.read()


@cache
def digest_layer(layer: Path) -> LayerDigest:
    """Digest of the names, kinds, modes and contents of a layer; read once by a process."""
    digest, num_bytes = hashlib.sha256(), 0
    for path, status in _list(layer):
        content = _content(path, status)
        num_bytes += len(content)
        name = os.fsencode(path.relative_to(layer))
        for part in (name, b"%o" % (status.st_mode & _KIND_AND_EXECUTABLE), content):
            digest.update(b"%d:" % len(part) + part)
    return LayerDigest(digest.hexdigest(), num_bytes)


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
