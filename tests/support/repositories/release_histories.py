"""Git history of a real package, with one commit per release."""

import re
from pathlib import Path

from support.repositories.histories import git, start
from turnsmith.synthesis.sources import fetch_source

MADE = re.compile(r"PKG-INFO|(.*/)?[^/]+\.egg-info/.*")
"""Generated files of a source distribution that its repository does not contain."""


def write_releases(folder: Path, package: str, versions: list[str]) -> Path:
    """Commit the releases in order, each with its entry in the project's changelog as message."""
    start(folder)
    for version in versions:
        git(folder, "rm", "-r", "--quiet", "--ignore-unmatch", ".")
        for path, file in fetch_source(f"{package}=={version}").tree.items():
            if not MADE.fullmatch(path):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(file.content)
        git(folder, "add", "--all", "--force")
        git(folder, "commit", "--quiet", "--message", find_notes(folder, version))
    return folder


def find_notes(folder: Path, version: str) -> str:
    """Return notes by release from lines such as `- 1.19.1 Prevent deprecation warnings.` in a changelog."""
    found = re.search(rf"^- {re.escape(version)} (.*?)(?=^- )", (folder / "README.rst").read_text(), re.M | re.S)
    return " ".join(found[1].split()) if found else f"Release {version}"
