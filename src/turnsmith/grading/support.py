"""Test helpers and test data outside the test folders, found by their names.

If a source file contains the name as a word, even in a comment, the file counts as source, so that honest patches keep it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from turnsmith.git.layers import walk_merged
from turnsmith.grading.file_classes import HunkClass, classify

SUPPORT = re.compile(
    r"(.*/)?(_?testing\.py|_?test(ing)?_?(utils?|helpers?|support|tools|cases|data)\.py"
    r"|(fixtures|_?test_?(data|files|utils?|helpers?|support)|__?snapshots__|snapshots|goldens?|cassettes)/.*"
    r"|[^/]*\.(snap|ambr))",
    re.DOTALL,
)
"""Names of test helpers and expected data: `pkg/testing.py`, `fixtures/a.json`, `__snapshots__/a.ambr`."""
SOURCES = (".py", ".pyi", ".pyx", ".pxd")
ENTRY_POINTS = ("pyproject.toml", "setup.cfg")
"""Files other than source that name modules."""


@lru_cache(maxsize=8)
def find_support(layers: tuple[Path, ...], test_files: frozenset[str]) -> frozenset[str]:
    """Find files with such a name that no other source file mentions."""
    files = find_files(layers)
    return find_unmentioned({path: list_words(path) for path in files if SUPPORT.fullmatch(path)}, files, test_files)


def find_files(layers: tuple[Path, ...]) -> dict[str, Path]:
    """Find the regular files of the tree, without links."""
    return {path: place for path, place in walk_merged(layers) if place.is_file() and not place.is_symlink()}


def find_unmentioned(
    words: Mapping[str, list[str]], files: Mapping[str, Path], test_files: frozenset[str]
) -> frozenset[str]:
    """Select the paths whose words occur in no other source file; `words` are given for each path."""
    wanted = {word for each in words.values() for word in each}
    mentions = {
        path: wanted.intersection(re.findall(r"\w+", place.read_text("latin-1")))
        for path, place in files.items()
        if wanted and _mentions_modules(path, test_files)
    }
    users = {word: {path for path, found in mentions.items() if word in found} for word in wanted}
    return frozenset(path for path, each in words.items() if not any(users[word] - {path} for word in each))


def list_words(path: str) -> list[str]:
    """List the words by which source would mention a file: `a/fixtures/x.json` → `["fixtures"]`, `a.snap` → `["snap"]`."""
    file = PurePosixPath(path)
    folders = [part for part in file.parts[:-1] if SUPPORT.fullmatch(f"{part}/x")]
    return folders or [file.stem if file.suffix == ".py" else file.suffix[1:]]


def _mentions_modules(path: str, test_files: frozenset[str]) -> bool:
    is_source = path.endswith(SOURCES) and classify(path, test_files) is HunkClass.SOURCE
    return is_source or PurePosixPath(path).name in ENTRY_POINTS
