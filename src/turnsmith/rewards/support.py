"""Helpers and data of tests that lie outside of the folders of tests: by their names, where no source of the tree uses them."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
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


def is_support(path: str, layers: Sequence[Path], is_source: Callable[[str], bool]) -> bool:
    """Does the tree have a file of this name, is the name that of a helper or of data of tests, and does no source use it?

    `is_source` says which other files are source. What is only in an image is not seen, and counts as source.
    """
    if not SUPPORT.fullmatch(path) or not any((layer / path).is_file() for layer in layers):
        return False
    return not any(is_source(other) for other in find_users(path, tuple(layers)))


@lru_cache(maxsize=256)
def find_users(path: str, layers: tuple[Path, ...]) -> tuple[str, ...]:
    """Python files of the tree that import a module, or name a data file or the folder that gives it its name."""
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
    """Folders by whose names a file is taken for data of tests: `a/fixtures/x/y.json` → `["fixtures"]`."""
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
    """Modules that a statement may import, in parts: `from ..a import b` in `p/q/r.py` → `("p", "a")`, `("p", "a", "b")`."""
    match node:
        case ast.Import(names=names):
            yield from (tuple(alias.name.split(".")) for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = user.parts[: len(user.parts) - level] if level else ()
            base = (*above, *(module.split(".") if module else ()))
            yield base
            yield from ((*base, alias.name) for alias in names)
