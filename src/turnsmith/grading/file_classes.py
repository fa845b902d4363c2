"""Classes of the files in a patch, by their names: test infrastructure, tests, generated files, source.

Test helpers and test data outside the test folders are recognised by name too. But a file that source code mentions,
even in a comment, counts as source, so that honest changes to it are graded.
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path, PurePosixPath

from turnsmith.git.layers import walk_merged


class FileClass(StrEnum):
    """Class of a file in a patch; if several fit, the first counts. A grade lists the classes that were not applied."""

    TEST_INFRASTRUCTURE = "test-infrastructure"
    """File that determines how tests run or which modules they import."""
    TEST_SURFACE = "test-surface"
    """Test file, file in a test folder, or file that only tests read or import."""
    GENERATED = "generated"
    """File that a program writes while tests run, e.g. bytecode, a cache or coverage data."""
    SOURCE = "source"
    """Any other file. Only changes to source files are graded."""


INFRASTRUCTURE = re.compile(
    r"(.*/)?(conftest\.py|\.?pytest\.(ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|(site|user)customize\.py"
    r"|(?i:[^/]*\.(pth|dist-info|egg-info|egg-link)(/.*)?))",
    re.DOTALL,
)
SURFACE = re.compile(r"(.*/)?(tests?/.*|test_[^/]*\.py|[^/]*_test\.py)", re.DOTALL)
GENERATED = re.compile(
    r"(.*/)?((__pycache__|\.(pytest_cache|hypothesis|mypy_cache|ruff_cache|tox|nox|eggs))/.*|[^/]*\.py[co]|\.coverage[^/]*)",
    re.DOTALL,
)
SUPPORT = re.compile(
    r"(.*/)?(_?testing\.py|_?test(ing)?_?(utils?|helpers?|support|tools|cases|data)\.py"
    r"|(fixtures|_?test_?(data|files|utils?|helpers?|support)|__?snapshots__|snapshots|goldens?|cassettes)/.*"
    r"|[^/]*\.(snap|ambr))",
    re.DOTALL,
)
"""Pattern of test helpers and data, e.g. `fixtures/a.json`. Changes to them are not graded, unless source mentions the file."""
SOURCES = (".py", ".pyi", ".pyx", ".pxd")
ENTRY_POINTS = ("pyproject.toml", "setup.cfg")
"""Names of settings files. A test helper that such a file mentions is graded, as if source code mentioned it."""


def classify(path: str, test_files: Collection[str] = ()) -> FileClass:
    """Classify a path by its name; paths in `test_files` are tests whatever their names."""
    if INFRASTRUCTURE.fullmatch(path):
        return FileClass.TEST_INFRASTRUCTURE
    if GENERATED.fullmatch(path):
        return FileClass.GENERATED
    is_test = _is_in_the_place_of(path, test_files) or SURFACE.fullmatch(path)
    return FileClass.TEST_SURFACE if is_test else FileClass.SOURCE


def _is_in_the_place_of(path: str, test_files: Collection[str]) -> bool:
    """Return True if the path is a test file, or if creating it would replace a test file or its folder."""
    places = [PurePosixPath(file) for file in test_files]
    return any(place.is_relative_to(path) or PurePosixPath(path).is_relative_to(place) for place in places)


@lru_cache(maxsize=8)
def find_support(layers: tuple[Path, ...], test_files: frozenset[str]) -> frozenset[str]:
    """Find test helpers and test data by their names, except files that a source file mentions."""
    files = find_files(layers)
    return find_unmentioned({path: list_words(path) for path in files if SUPPORT.fullmatch(path)}, files, test_files)


def find_files(layers: tuple[Path, ...]) -> dict[str, Path]:
    """Return path → file on disk, for the regular files (no links) of the tree that the overlaid folders form."""
    return {path: file for path, file in walk_merged(layers) if file.is_file() and not file.is_symlink()}


def find_unmentioned(
    words: Mapping[str, list[str]], files: Mapping[str, Path], test_files: frozenset[str]
) -> frozenset[str]:
    """Select the paths that no other source file mentions. `words` maps each path to the words that count as mentions of it."""
    if not (wanted := {word for each in words.values() for word in each}):
        return frozenset()
    mentions = {
        path: wanted.intersection(re.findall(r"\w+", file.read_text("latin-1")))
        for path, file in files.items()
        if (path.endswith(SOURCES) and classify(path, test_files) is FileClass.SOURCE)
        or PurePosixPath(path).name in ENTRY_POINTS
    }
    users = {word: {path for path, found in mentions.items() if word in found} for word in wanted}
    return frozenset(path for path, each in words.items() if not any(users[word] - {path} for word in each))


def list_words(path: str) -> list[str]:
    """List the words by which source code would mention a file: its folders of test data, else a module's name or the suffix."""
    file = PurePosixPath(path)
    folders = [part for part in file.parts[:-1] if SUPPORT.fullmatch(f"{part}/x")]
    return folders or [file.stem if file.suffix == ".py" else file.suffix[1:]]
