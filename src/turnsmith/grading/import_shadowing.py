"""New modules that would be imported in place of Python's own or the test runner's, which no patch may add.

They matter where an interpreter looks before pytest has read the secrets of its run. What pytest puts on the path for a test file
comes later, and has no more say than the code under test.
"""

import importlib.metadata
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import accumulate, product
from operator import truediv
from pathlib import Path, PurePosixPath

from turnsmith.sandboxes.runtime import required_distributions

STEP = re.compile(r"\bcd +[\"']?([^/\s;&|\"'][^\s;&|\"']*)")
PATH = re.compile(r"PYTHONPATH=[\"']?([^\s\"']+)")
SETTINGS = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml")
SETTING = re.compile(r"\bpythonpath[\"']?\s*[=:]\s*(\[[^\]]*\]|.*(?:\n[ \t]+.*)*)")
"""A list of TOML, or the rest of the line with the lines below that are indented."""
FOLDER = re.compile(r"(?<=\")[^\",]+(?=\")|(?<=')[^',]+(?=')|[^\s\"',\[\]]+")
JYTHON = ["org", "python"]
"""A package that `pickle` and `copy` ask for and only Jython has: here a folder without `__init__` would do, too."""
BINARY = {".so", ".pyd", ".pyc"}


def find_import_roots(command: str, layers: Sequence[Path]) -> frozenset[PurePosixPath]:
    """In each folder that the test command goes to: itself, `src`, and what the command and pytest's settings name."""
    folders = [*accumulate(map(PurePosixPath, ["", *STEP.findall(command)]), truediv)]
    path = ["", "src", *(name for value in PATH.findall(command) for name in value.split(":"))]
    roots = [folder / name for folder in folders for name in (*path, *_find_in_settings(folder, layers))]
    return frozenset(PurePosixPath(os.path.normpath(root)) for root in roots)


def _find_in_settings(folder: PurePosixPath, layers: Sequence[Path]) -> Iterator[str]:
    """Whatever stands beside `pythonpath`, in any table of any file: one root too many costs nothing."""
    files = [layer / folder / name for layer, name in product(layers, SETTINGS)]
    for text in [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]:
        for value in SETTING.findall(text):
            yield from FOLDER.findall(value)


@cache
def find_protected() -> frozenset[str]:
    """Modules of Python, of pytest and of every installed plugin, with what they require here or, as named, elsewhere."""
    plugins = {
        found.name for found in importlib.metadata.distributions() if found.entry_points.select(group="pytest11")
    }
    files = [file for found in required_distributions("pytest", *plugins) for file in found.files or []]
    named = {"_wmi", "colorama", "exceptiongroup", "org", "py", "sitecustomize", "tomli", "usercustomize"}
    return sys.stdlib_module_names | named | {file.parts[0].partition(".")[0] for file in files if _is_code(file.name)}


def is_shadow(path: str, roots: Collection[PurePosixPath], layers: Sequence[Path]) -> bool:
    """Would the path make a protected module importable from one of the roots, where the layers have no such module?"""
    return any(_is_shadow_at(root, PurePosixPath(path), layers) for root in roots)


def _is_shadow_at(root: PurePosixPath, path: PurePosixPath, layers: Sequence[Path]) -> bool:
    """A folder counts through its `__init__`, since without one it yields to Python's own; a bare name may be a link to one."""
    if not path.is_relative_to(root) or path == root:
        return False
    top, *below = path.relative_to(root).parts
    name = top.partition(".")[0]
    if [name, *(part.partition(".")[0] for part in below[:1])] == JYTHON:
        return not _exists(root.joinpath(*JYTHON), layers)
    is_module = below[0].startswith("__init__.") if below else top == name or _is_code(top)
    base = (root / f"{name}.py", root / name / "__init__.py")
    return name in find_protected() and len(below) < 2 and is_module and not any(_exists(file, layers) for file in base)


def _is_code(name: str) -> bool:
    return name.endswith(".py") or PurePosixPath(name).suffix in BINARY


def _exists(path: PurePosixPath, layers: Sequence[Path]) -> bool:
    return any(os.path.lexists(layer / path) for layer in layers)
