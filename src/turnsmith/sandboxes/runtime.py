"""Python that runs tests in sandboxes: the current interpreter, and a folder with only pytest and its dependencies."""

import compileall
import hashlib
import importlib.metadata
import os
import shutil
import site
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode

from packaging.requirements import Requirement

from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.inside.wire import HostPython


def describe_python(*, plugins: Sequence[str] = (), hidden: Sequence[str] = ()) -> HostPython:
    """Describe the interpreter, the folder with pytest, and the package folders to hide, for sandboxes. Raises UsageError."""
    prefix = os.path.realpath(sys.base_prefix)
    wheels = str(Path(os.__file__).parent / "ensurepip" / "_bundled")
    folders = [*site.getsitepackages([sys.base_prefix]), wheels, *hidden]
    return HostPython(
        program=os.path.realpath(sys._base_executable),  # type: ignore[attr-defined]
        prefix=prefix,
        hidden=sorted({os.path.realpath(folder) for folder in folders}),
        runtime=str(prepare_runtime(plugins)),
    )


def prepare_runtime(plugins: Sequence[str] = ()) -> Path:
    """Return the cached folder with pytest, its dependencies and the plugins, built on first use. Raises UsageError."""
    try:
        distributions = required_distributions("pytest", *plugins)
    except importlib.metadata.PackageNotFoundError as error:
        raise UsageError(f"sandbox.test_plugins: {error.name} is not installed: pip install {error.name}") from None
    versions = [f"{distribution.name}=={distribution.version}" for distribution in distributions]
    key = hashlib.sha256("\n".join([sys.implementation.cache_tag or "", *versions]).encode()).hexdigest()[:16]
    return prepare_folder(f"runtime-{key}", lambda folder: _fill_runtime(folder, distributions))


def prepare_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the user's cache; if it is missing, fill a temporary folder and rename it. Raises UsageError."""
    folder = cache_folder() / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            with temporary_folder(f".{name}", folder.parent) as staged:
                fill(staged)
                staged.chmod(0o755)
                staged.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise UsageError(
                f"cannot make {folder}: {error}: set XDG_CACHE_HOME to a folder that you may write"
            ) from None
    return folder.resolve()


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "turnsmith"


def required_distributions(*names: str) -> list[importlib.metadata.Distribution]:
    """Return the installed distributions of these names and of their dependencies, sorted by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        requirements = map(Requirement, found[name].requires or [])
        waiting.extend(r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""}))
    return [found[name] for name in sorted(found)]


def _fill_runtime(folder: Path, distributions: list[importlib.metadata.Distribution]) -> None:
    for distribution in distributions:
        copy_distribution(distribution, folder)
    compileall.compile_dir(folder, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    open_to_all(folder)


def copy_distribution(distribution: importlib.metadata.Distribution, target: Path) -> None:
    """Copy the importable files of an installed distribution, without its scripts."""
    for file in distribution.files or []:
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(distribution.locate_file(file)), copy)


def open_to_all(folder: Path) -> None:
    """Make a folder readable by everyone, regardless of the umask: the sandbox's user is not the owner. Skip symlinks."""
    folder.chmod(0o755)
    for path in (path for path in folder.rglob("*") if not path.is_symlink()):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
