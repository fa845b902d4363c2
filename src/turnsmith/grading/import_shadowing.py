"""Detection of new files that shadow modules of Python or of the test runner, which a patch must not add.

Only folders from which Python imports while pytest starts are checked, since modules there run before the grader's
pytest plugin. Folders that pytest adds later for a test file are harmless.
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
"""Pattern of pytest's setting `pythonpath`. Its group is the value: a TOML list, or one line and indented lines below it."""
FOLDER = re.compile(r"(?<=\")[^\",]+(?=\")|(?<=')[^',]+(?=')|[^\s\"',\[\]]+")
JYTHON = ["org", "python"]
"""Jython's package `org.python`, which `pickle` and `copy` try to import; even a folder without `__init__` shadows it."""
BINARY = {".so", ".pyd", ".pyc"}


def find_import_roots(command: str, layers: Sequence[Path]) -> frozenset[PurePosixPath]:
    """Find the import folders of the tests: those named by the test command, its `PYTHONPATH` and pytest's settings."""
    folders = [*accumulate(map(PurePosixPath, ["", *STEP.findall(command)]), truediv)]
    path = ["", "src", *(name for value in PATH.findall(command) for name in value.split(":"))]
    roots = [folder / name for folder in folders for name in (*path, *_find_in_settings(folder, layers))]
    return frozenset(PurePosixPath(os.path.normpath(root)) for root in roots)


def _find_in_settings(folder: PurePosixPath, layers: Sequence[Path]) -> Iterator[str]:
    """Yield the import folders that the setting `pythonpath` names in any of pytest's settings files in a folder."""
    files = [layer / folder / name for layer, name in product(layers, SETTINGS)]
    for text in [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]:
        for value in SETTING.findall(text):
            yield from FOLDER.findall(value)


@cache
def find_protected() -> frozenset[str]:
    """Return the names of the modules of Python, pytest, its installed plugins, and their requirements."""
    plugins = {
        found.name for found in importlib.metadata.distributions() if found.entry_points.select(group="pytest11")
    }
    files = [file for found in required_distributions("pytest", *plugins) for file in found.files or []]
    named = {"_wmi", "colorama", "exceptiongroup", "org", "py", "sitecustomize", "tomli", "usercustomize"}
    return sys.stdlib_module_names | named | {file.parts[0].partition(".")[0] for file in files if _is_code(file.name)}


def is_shadow(path: str, roots: Collection[PurePosixPath], layers: Sequence[Path]) -> bool:
    """Return True if a new file in one of the import folders `roots` would shadow a module of Python or of the test runner."""
    return any(_is_shadow_at(root, PurePosixPath(path), layers) for root in roots)


def _is_shadow_at(root: PurePosixPath, path: PurePosixPath, layers: Sequence[Path]) -> bool:
    """Return True if a file at `path` would shadow a module of Python or of the test runner in the import folder `root`.

    Folders without `__init__` shadow nothing. A file without suffix counts, since it may be a link to a package.
    """
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
