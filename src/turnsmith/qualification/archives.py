"""The files in wheels and other archives, which may be broken in any way."""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

ZIPS = (".whl", ".egg", ".zip", ".jar")
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ARCHIVES = (*ZIPS, *TARS)
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError)
"""What readers of archives raise at broken, encrypted or unknown ones, which an agent cannot read by ordinary means either."""
MAX_MEMBER_BYTES = 64 << 20
"""A larger member is passed over."""


def unpack(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files in an archive, as far as it can be read: `("a.whl!pkg/x.py", …)`."""
    try:
        for member, inner in _open_zip(content) if name.endswith(ZIPS) else _open_tar(content):
            yield f"{name}!{member}", inner
    except BROKEN:
        return


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
