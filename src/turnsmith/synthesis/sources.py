"""Sources of real packages: a source archive from the package index, or a local git checkout without its history.

Archives are read in memory, so that they cannot write files.
"""

import io
import os
import re
import sys
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from turnsmith.errors import UsageError
from turnsmith.git.one_commit import EXECUTABLE, REGULAR, TreeFile
from turnsmith.io.programs import run_program
from turnsmith.runs.temporary import temporary_folder

REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9._+!-]*)")
MAX_TREE_BYTES = 200_000_000
DOWNLOAD_TIMEOUT_S = 600.0
UNREACHABLE = re.compile(r"Could not fetch URL (\S+): (?!404 )(.*)")
"""Pattern of the line in pip's log for an unreachable package index. Status 404 only means that the index lacks the package."""
MAX_CAUSE_CHARACTERS = 200
LEFT_OUT = re.compile(r"(.*/)?(\.git|__pycache__|[^/]+\.egg-info|\.pytest_cache)(/.*)?|.*\.pyc|PKG-INFO")
"""Pattern of paths to skip in a source: git histories, caches and packaging metadata."""


@dataclass(frozen=True)
class PackageSource:
    """Files of one version of a package."""

    name: str
    version: str
    """Version in the package index, or the short commit hash of a git checkout."""
    tree: dict[str, TreeFile]

    @property
    def title(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def import_root(self) -> str:
        """Return the folder from which the package is imported: `src` or ""."""
        return "src" if any(path.startswith("src/") and path.endswith(".py") for path in self.tree) else ""


def fetch_source(package: str) -> PackageSource:
    """Fetch a package's source: `name==version` from the package index, or HEAD of a git checkout. Raises UsageError."""
    check_source(package)
    requirement = REQUIREMENT.fullmatch(package)
    if requirement:
        return _fetch_sdist(requirement[1], requirement[2])
    return _export_checkout(Path(package).resolve())


def check_source(package: str) -> None:
    """Check that a package is given as `name==version` or as a folder, without fetching it. Raises UsageError."""
    is_requirement = REQUIREMENT.fullmatch(package)
    if not is_requirement and not Path(package).is_dir():
        raise UsageError(f"no package {package!r}: give name==version, or the path of a git checkout")
    if is_requirement and find_spec("pip") is None:
        raise UsageError(f"fetching {package} needs pip, which {sys.executable} lacks: run `python -m ensurepip`")


def _fetch_sdist(name: str, version: str) -> PackageSource:
    """Download a package's source with pip. As in any installation, pip runs the package's build code to read its metadata."""
    with temporary_folder("sdist") as folder:
        _download(f"{name}=={version}", name, folder)
        archives = list(folder.glob("*.tar.*"))
        if not archives:
            raise UsageError(f"{name}=={version} has no .tar.gz source in the package index: take another version")
        return PackageSource(name, version, read_archive(archives[0].read_bytes(), strip=1))


def _download(requirement: str, name: str, folder: Path) -> None:
    """Download a source archive to `folder` with pip. Raises UsageError that names the cause."""
    log, temporary = folder / "pip.log", folder / "temporary"
    temporary.mkdir()
    quietly = ["--quiet", "--disable-pip-version-check", "--log", str(log)]
    options = [*quietly, "--no-deps", "--no-binary", name, "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, requirement]
    try:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        run_program(command, f"cannot fetch {requirement}", env=environment, timeout_s=DOWNLOAD_TIMEOUT_S)
    except UsageError as error:
        lines = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        raise UsageError(find_fault(requirement, lines) or str(error)) from None


def find_fault(requirement: str, log: str) -> str:
    """Return the cause of a failed download in pip's log: index unreachable or version missing; "" for other causes."""
    if unreachable := UNREACHABLE.search(log):
        place, cause = unreachable.groups()
        remedy = "check the network, or name another index in PIP_INDEX_URL"
        return f"cannot reach the package index for {requirement} ({place}: {cause[:MAX_CAUSE_CHARACTERS]}): {remedy}"
    if f"No matching distribution found for {requirement}" in log:
        return f"the package index has no source of {requirement}: take another version"
    return ""


def _export_checkout(path: Path) -> PackageSource:
    git = ["git", "-C", str(path)]
    commit = run_program([*git, "rev-parse", "--short=8", "HEAD"], f"cannot read the commit of {path}").decode().strip()
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", path.name)
    archive = run_program([*git, "archive", "HEAD"], f"cannot export {path}", timeout_s=DOWNLOAD_TIMEOUT_S)
    return PackageSource(name, commit, read_archive(archive, strip=0))


def read_archive(data: bytes, strip: int) -> dict[str, TreeFile]:
    """Read the regular files of a tar archive; drop `strip` leading folders of paths. Raises UsageError if it is too large."""
    tree: dict[str, TreeFile] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [member for member in archive if member.isreg()]
        if sum(member.size for member in members) > MAX_TREE_BYTES:
            raise UsageError(f"the archive holds more than {MAX_TREE_BYTES:,} bytes: take a smaller package")
        for member in members:
            parts = PurePosixPath(member.name).parts[strip:]
            path, content = "/".join(parts), archive.extractfile(member)
            is_inside = parts and {"..", "/"}.isdisjoint(parts)
            if content and is_inside and not LEFT_OUT.fullmatch(path):
                tree[path] = TreeFile(content.read(), EXECUTABLE if member.mode & 0o100 else REGULAR)
    return tree
