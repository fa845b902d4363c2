"""Creation of folders: atomic, under valid names, and never over existing files."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder

MARK = "turnsmith"
"""Part of the names of hidden, unfinished folders, by which later processes find those that killed processes left."""
MAX_NAME_BYTES = 200
"""Maximum length of a folder name. File systems allow 255 bytes; the difference is reserved for suffixes."""


def to_folder_name(text: str) -> str:
    """Encode any text as a folder name: `owner/model` → `owner__model`, `..` → `%2E.`.

    Printable text without `/`, `%` and an initial dot is unchanged. A long name ends with a digest.
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
    """Raise UsageError if `out` is an existing file or a folder with content."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already: give a new folder, since nothing is overwritten")


def make_folder(out: Path) -> Path:
    """Create a folder unless it exists. Raises UsageError if it cannot be created."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {out}: {error.strerror}: give another place") from None
    return out


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """Yield a hidden folder that is renamed to `out` if the block succeeds. Raises UsageError if `out` is taken."""
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
    """Give files the mode 0666 without the bits of the umask. Libraries that write via a temporary file leave the mode 0600."""
    mode = 0o666 & ~read_umask()
    for file in files:
        file.chmod(mode)


def read_umask() -> int:
    """Read the umask of this process from /proc, since `os.umask` can return it only by setting another."""
    status = Path("/proc/self/status").read_text()
    [umask] = re.findall(r"^Umask:\s*(\d+)$", status, re.MULTILINE)
    return int(umask, base=8)
