"""New folders: none is written over, and one can be made so that it appears whole or not at all."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder

MARK = "turnsmith"
"""In the name of the hidden folder; what a killed process leaves under such a name is removed by the next start."""

MAX_NAME_BYTES = 200
"""File systems take 255; the rest is for what is added to a name."""


def to_folder_name(text: str) -> str:
    """Encode a name that others have chosen as that of one folder: `owner/model` → `owner__model`, `..` → `%2E.`.

    Printable text without `/` and `%` stays as it is, but for a dot at its beginning. A long name ends with a digest.
    """
    name = "".join(each if each.isprintable() and each != "%" else _escape(each) for each in text.replace("/", "__"))
    name = _escape(".") + name[1:] if name.startswith(".") else name
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name or "%"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{name.encode()[: MAX_NAME_BYTES - 17].decode(errors='ignore')}-{digest}"


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def refuse_taken(out: Path) -> None:
    """Raises UsageError where something is there: a file, or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already: give a new folder, nothing is written over")


def make_folder(out: Path) -> Path:
    """A folder that may be there already. Raises UsageError where none can be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {out}: {error.strerror}: give another place") from None
    return out


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` that takes its place when the block ends well. Raises UsageError where `out` is in use."""
    refuse_taken(out)
    with ExitStack() as held:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            folder = held.enter_context(temporary_folder(f".{out.name}.{MARK}", out.parent))
        except OSError as error:
            raise UsageError(f"cannot make {out}: {error.strerror}: give another place") from None
        yield folder
        folder.chmod(0o777 & ~read_umask())
        folder.replace(out)


def follow_umask(files: Iterable[Path]) -> None:
    """Give files the mode of new ones: libraries that write by way of a temporary file leave 0600."""
    mode = 0o666 & ~read_umask()
    for file in files:
        file.chmod(mode)


def read_umask() -> int:
    """Read the umask of this process, which `os.umask` cannot do without setting it."""
    status = Path("/proc/self/status").read_text()
    [umask] = re.findall(r"^Umask:\s*(\d+)$", status, re.MULTILINE)
    return int(umask, base=8)
