"""New modules that would be imported in place of Python's own or the test runner's, which no patch may add."""

import importlib.metadata
import os
import sys
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from turnsmith.sandboxes.runtime import required_distributions

JYTHON = ["org", "python"]
"""A package that `pickle` and `copy` ask for and only Jython has: here a folder without `__init__` would do, too."""
BINARY = {".so", ".pyd", ".pyc"}


@cache
def find_protected() -> frozenset[str]:
    """Modules of Python, of pytest and of every installed plugin, with what they require here or, as named, elsewhere."""
    plugins = {
        found.name for found in importlib.metadata.distributions() if found.entry_points.select(group="pytest11")
    }
    files = [file for found in required_distributions("pytest", *plugins) for file in found.files or []]
    named = {"colorama", "exceptiongroup", "org", "py", "sitecustomize", "tomli", "usercustomize"}
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
