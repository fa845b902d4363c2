"""Python interpreters installed on this machine."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from turnsmith.errors import UsageError
from turnsmith.io.programs import run_program

PLACES = (
    ("PYENV_ROOT", ".pyenv", "versions/*/bin/python3"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "*/bin/python3"),
)
"""Per installer: variable with its root folder, default root below the home folder, pattern of its interpreters."""
CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge")
"""Default folders of conda installations, below the home folder."""
ON_PATH = re.compile(r"python3(\.\d+)?")
ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.base_prefix)"
STARRED = re.compile(r"([<>~]=?\s*[\d.]+)\.\*")
TIMEOUT_S = 20.0
RELEASED = {
    "3.6": "2016-12-23",
    "3.7": "2018-06-27",
    "3.8": "2019-10-14",
    "3.9": "2020-10-05",
    "3.10": "2021-10-04",
    "3.11": "2022-10-24",
    "3.12": "2023-10-02",
    "3.13": "2024-10-07",
    "3.14": "2025-10-07",
}
"""Minor version of Python → date of its first release (PEPs 494, 537, 569, 596, 619, 664, 693, 719, 745)."""


@dataclass(frozen=True)
class Python:
    """Python interpreter installed on this machine."""

    version: Version
    program: Path
    prefix: Path
    """Folder that holds the interpreter and its standard library."""

    @property
    def minor(self) -> str:
        return f"{self.version.major}.{self.version.minor}"


@cache
def find_pythons() -> tuple[Python, ...]:
    """Find the Python 3 interpreters on PATH and those of pyenv, uv and conda: one per version, newest first."""
    programs = {program.resolve(): program for program in list_programs()}
    with ThreadPoolExecutor() as pool:
        found = [python for python in pool.map(_ask, programs.values()) if python]
    by_version = {python.version: python for python in reversed(found)}
    return tuple(by_version[version] for version in sorted(by_version, reverse=True))


def list_programs() -> Iterator[Path]:
    """Yield the paths of programs that may be Python interpreters."""
    yield Path(sys._base_executable)  # type: ignore[attr-defined]
    for folder in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        if Path(folder).is_dir():
            yield from (path for path in Path(folder).iterdir() if ON_PATH.fullmatch(path.name))
    for variable, place, pattern in PLACES:
        yield from Path(os.environ.get(variable) or Path.home() / place).glob(pattern)
    roots = []
    if program := os.environ.get("CONDA_EXE"):
        roots.append(Path(program).parent.parent)
    if active := os.environ.get("CONDA_PREFIX"):
        roots.append(Path(active))
    for root in (*roots, *(Path.home() / name for name in CONDAS)):
        yield from (*root.glob("bin/python3"), *root.glob("envs/*/bin/python3"))


def _ask(program: Path) -> Python | None:
    """Ask a program for its Python version and prefix. Return None if it is no working Python."""
    command = [str(program), "-I", "-S", "-c", ASK]
    try:
        version, prefix = run_program(command, "no answer", timeout_s=TIMEOUT_S).decode().splitlines()
        return Python(Version(version), program, Path(os.path.realpath(prefix)))
    except (UsageError, ValueError):
        return None


def find_python(wanted: str) -> Python:
    """Find the newest installed Python of a version such as `3.9` or `3.9.18`. Raises UsageError if there is none."""
    pythons = find_pythons()
    for python in pythons:
        if wanted in (python.minor, str(python.version)):
            return python
    known = ", ".join(str(python.version) for python in pythons)
    raise UsageError(f"Python {wanted} is not on this machine: install it (pyenv, uv), or take one of {known}")


def choose_python(requires: str, date: str, classifiers: Iterable[str] = ()) -> Python:
    """Choose the newest Python within `requires` that was released by a date, else the oldest within `requires`.

    Packages of that date may not support newer Pythons. `requires` is the project's `requires-python`; `date` begins with
    YYYY-MM-DD; `classifiers` are minor versions, which are preferred. Raises UsageError if no installed Python is within
    `requires`.
    """
    bounds = _read_bounds(requires)
    admitted = [python for python in find_pythons() if bounds.contains(python.version)]
    if not admitted:
        known = ", ".join(str(python.version) for python in find_pythons())
        raise UsageError(f"no Python on this machine satisfies requires-python {requires!r}: installed are {known}")
    named = [python for python in admitted if python.minor in set(classifiers)]
    of_its_day = [python for python in named or admitted if RELEASED.get(python.minor, "9999") <= date[:10]]
    return next(iter(of_its_day), (named or admitted)[-1])


def _read_bounds(requires: str) -> SpecifierSet:
    """Parse a project's `requires-python`; read the obsolete form `>=3.6.*` as `>=3.6`. Raises UsageError."""
    try:
        return SpecifierSet(STARRED.sub(r"\1", requires))
    except InvalidSpecifier:
        raise UsageError(f"requires-python {requires!r} is invalid: give the Python version by --python") from None
