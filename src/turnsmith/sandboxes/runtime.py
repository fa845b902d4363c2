"""The Python that tests need: the interpreter that runs us, and a folder with pytest and its dependencies, nothing else."""

import compileall
import hashlib
import importlib.metadata
import os
import shutil
import site
import sys
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode

from packaging.requirements import Requirement

from turnsmith.errors import UsageError
from turnsmith.sandboxes.inside.wire import Machine


def describe_machine() -> Machine:
    """Interpreter and test runtime of this process, links resolved."""
    prefix = os.path.realpath(sys.base_prefix)
    return Machine(
        python=os.path.realpath(sys._base_executable),  # type: ignore[attr-defined]
        python_prefix=prefix,
        hidden=sorted({os.path.realpath(folder) for folder in site.getsitepackages([sys.base_prefix])}),
        runtime=str(prepare_runtime()),
    )


def prepare_runtime() -> Path:
    """The test runtime in the user's cache, made at the first call for each set of versions."""
    distributions = required_distributions("pytest")
    versions = [f"{distribution.name}=={distribution.version}" for distribution in distributions]
    key = hashlib.sha256("\n".join([sys.implementation.cache_tag or "", *versions]).encode()).hexdigest()[:16]
    folder = cache_folder() / f"runtime-{key}"
    if not folder.is_dir():
        _build(folder, distributions)
    return folder.resolve()


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "turnsmith"


def required_distributions(name: str) -> list[importlib.metadata.Distribution]:
    """An installed distribution and all that it requires on this interpreter, sorted by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        requirements = map(Requirement, found[name].requires or [])
        waiting.extend(r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""}))
    return [found[name] for name in sorted(found)]


def _build(folder: Path, distributions: list[importlib.metadata.Distribution]) -> None:
    """Copy and compile beside the final place, then move there: others see all of it or nothing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".runtime-", dir=folder.parent) as temporary:
            staged = Path(temporary) / "runtime"
            for distribution in distributions:
                _copy(distribution, staged)
            compileall.compile_dir(staged, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
            _open_to_all(staged)
            if not folder.is_dir():
                staged.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise UsageError(
                f"cannot make the test runtime {folder}: {error}: set XDG_CACHE_HOME to a folder that you may write"
            ) from None


def _copy(distribution: importlib.metadata.Distribution, target: Path) -> None:
    """Copy the importable files of an installed distribution; its scripts lie outside and stay there."""
    for file in distribution.files or []:
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(distribution.locate_file(file)), copy)


def _open_to_all(folder: Path) -> None:
    """Whatever the umask: the user of a sandbox is not the owner."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
