"""Names of helpers and data of tests outside of the folders of tests, and the files of the tree that use them."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from turnsmith.sandboxes.layers import walk_merged

SUPPORT = re.compile(
    r"(.*/)?(_?testing\.py|_?test(ing)?_?(utils?|helpers?|support|tools|cases|data)\.py"
    r"|(fixtures|_?test_?(data|files|utils?|helpers?|support)|__?snapshots__|snapshots|goldens?|cassettes)/.*"
    r"|[^/]*\.(snap|ambr))",
    re.DOTALL,
)
"""Names that helpers of tests and expected data have: `pkg/testing.py`, `fixtures/a.json`, `__snapshots__/a.ambr`."""
MAX_SOURCE_BYTES = 1 << 20
"""A larger file is generated, and uses no helper of tests."""


@lru_cache(maxsize=256)
def find_users(path: str, layers: tuple[Path, ...]) -> tuple[str, ...]:
    """Find the Python files of the tree that import a module, or that name a data file or its folder in a string."""
    file = PurePosixPath(path)
    words = [file.stem] if file.suffix == ".py" else [file.name, *_list_folders(file)]
    found = []
    for other, place in walk_merged(layers):
        if other.endswith(".py") and other != path and place.is_file() and not place.is_symlink():
            text = place.read_bytes()
            is_near = len(text) <= MAX_SOURCE_BYTES and any(word.encode() in text for word in words)
            if is_near and _uses(text, PurePosixPath(other), file, words):
                found.append(other)
    return tuple(found)


def _list_folders(file: PurePosixPath) -> list[str]:
    """List the folders whose names mark a file as data of tests: `a/fixtures/x/y.json` → `["fixtures"]`."""
    return [part for part in file.parts[:-1] if SUPPORT.fullmatch(f"{part}/x")]


def _uses(text: bytes, user: PurePosixPath, file: PurePosixPath, words: Sequence[str]) -> bool:
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if file.suffix != ".py":
        return any(word in re.split(r"[/\\]", text) for text in texts for word in words)
    module = (*file.parts[:-1], file.stem)
    imported = [name for node in nodes for name in _list_imported(node, user)]
    return any(module[-len(name) :] == name for name in imported) or any(
        re.fullmatch(rf"[\w.]*\b{re.escape(file.stem)}", text) for text in texts
    )


def _list_imported(node: ast.AST, user: PurePosixPath) -> Iterator[tuple[str, ...]]:
    """List what a statement may import, in parts: `from ..a import b` in `p/q/r.py` → `("p", "a")`, `("p", "a", "b")`."""
    match node:
        case ast.Import(names=names):
            yield from (tuple(alias.name.split(".")) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = user.parts[: len(user.parts) - level] if level else ()
            base = (*above, *(module.split(".") if module else ()))
            yield base
            yield from ((*base, alias.name) for alias in names)
