"""Classes of files by their names: what a changed file is to the tests."""

import re
from collections.abc import Collection
from enum import StrEnum
from pathlib import PurePosixPath


class HunkClass(StrEnum):
    """What a changed file is; the value is also the flag that it leaves in a grade. Gravest first."""

    TEST_INFRASTRUCTURE = "test-infrastructure"
    """Decides how tests run or which modules they get."""
    TEST_SURFACE = "test-surface"
    """A test, a file among the tests, or a file that only tests read or import."""
    GENERATED = "generated"
    """Made by a program from something else."""
    SOURCE = "source"
    """All else: what is graded."""


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


def classify(path: str, test_files: Collection[str] = ()) -> HunkClass:
    """Classify a path by its names; `test_files` are tests whatever they are called."""
    if INFRASTRUCTURE.fullmatch(path):
        return HunkClass.TEST_INFRASTRUCTURE
    if GENERATED.fullmatch(path):
        return HunkClass.GENERATED
    is_test = _is_in_the_place_of(path, test_files) or SURFACE.fullmatch(path)
    return HunkClass.TEST_SURFACE if is_test else HunkClass.SOURCE


def _is_in_the_place_of(path: str, test_files: Collection[str]) -> bool:
    """Is it a test file, a file where one's folder must be, or a file below what must be one?"""
    places = [PurePosixPath(file) for file in test_files]
    return any(place.is_relative_to(path) or PurePosixPath(path).is_relative_to(place) for place in places)
