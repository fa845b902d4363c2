"""A new folder that appears whole or not at all."""

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnsmith.errors import UsageError


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` that takes its place when the block ends well. Raises UsageError where `out` is in use."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already: give a new folder, nothing is written over")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(out)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise UsageError(f"cannot make {out}: {error.strerror}: give another place") from None
    try:
        with _locked(folder):
            yield folder
            folder.chmod(0o755)
            folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(out: Path) -> None:
    """Remove the hidden folders of processes that were killed, which hold no lock any more."""
    for folder in out.parent.glob(f".{glob.escape(out.name)}.????????"):
        try:
            with _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder as long as this process lives. Raises BlockingIOError where another holds it, NotADirectoryError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
