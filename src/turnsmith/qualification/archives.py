"""The files in wheels and other archives, which may be broken in any way."""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

ZIPS = (".whl", ".egg", ".zip", ".jar")
ARCHIVES = (*ZIPS, ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError)
"""What readers of archives raise at broken, encrypted or unknown ones, which an agent cannot read by ordinary means either."""
MAX_MEMBER_BYTES = 64 << 20
"""A larger member is passed over."""


def unpack(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files in an archive, as far as it can be read: `("a.whl!pkg/x.py", …)`."""
    try:
        if name.endswith(ZIPS):
            with zipfile.ZipFile(io.BytesIO(content)) as zipped:
                small = [member for member in zipped.infolist() if member.file_size <= MAX_MEMBER_BYTES]
                yield from ((f"{name}!{member.filename}", zipped.read(member)) for member in small)
        else:
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                files = (member for member in tar if member.isreg() and member.size <= MAX_MEMBER_BYTES)
                yield from (
                    (f"{name}!{member.name}", file.read()) for member in files if (file := tar.extractfile(member))
                )
    except BROKEN:
        return
