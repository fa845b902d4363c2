"""Software versions of a run. A process appends its versions to a journal if they differ from the previous ones."""

import os
import platform
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from turnsmith import __version__
from turnsmith.errors import UsageError
from turnsmith.io.programs import run_program
from turnsmith.runs.folder import RunFolder, append_record, read_records
from turnsmith.types import Record

PACKAGES = ("torch", "transformers")
ROOT = Path(__file__).parents[2]
"""Root folder of the git checkout, if Turnsmith runs from a checkout."""


class Versions(Record):
    """Software versions of one process."""

    since: str
    """Start of the process in local time."""
    software: dict[str, str]
    """Package → installed version; empty for a run of an old Turnsmith, which recorded no versions."""

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self.software.items()) or "unrecorded versions"


def record_versions(folder: RunFolder) -> None:
    """Append the versions of this process to the run's journal, unless the last line has the same versions."""
    recorded = read_versions(folder)
    if not recorded and not folder.is_untouched():
        append_record(folder.versions, Versions(since="the start", software={}))
    if not recorded or recorded[-1].software != find_versions():
        now = datetime.now().isoformat(sep=" ", timespec="seconds")
        append_record(folder.versions, Versions(since=now, software=find_versions()))


def read_versions(folder: RunFolder) -> list[Versions]:
    """Read the recorded versions, oldest first; empty for old runs. Raises UsageError if a line is damaged."""
    return list(read_records(folder.versions, Versions))


@cache
def find_versions() -> dict[str, str]:
    """Find the versions of Turnsmith, torch, transformers, Python and the kernel."""
    commit = find_commit(ROOT)
    own = f"{__version__} ({commit})" if commit else __version__
    packages = {name: number for name in PACKAGES if (number := _find_installed(name))}
    return {"turnsmith": own, **packages, "python": platform.python_version(), "kernel": os.uname().release}


def find_commit(checkout: Path) -> str:
    """Describe the commit of a checkout, e.g. `commit 1a2b3c4d5e6f, changed`; empty if there is none."""
    if not (checkout / ".git").exists():
        return ""
    ask = ["git", "--no-optional-locks", "-C", str(checkout), "describe", "--always", "--abbrev=12", "--exclude=*"]
    try:
        return f"commit {run_program([*ask, '--dirty=, changed'], 'cannot read the commit').decode().strip()}"
    except UsageError:
        return "commit unknown"


def _find_installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
