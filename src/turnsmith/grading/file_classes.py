"""Classes of changed files by their names: test infrastructure, tests, generated files, source."""

import re
from collections.abc import Collection
from enum import StrEnum
from pathlib import PurePosixPath


class HunkClass(StrEnum):
    """Class of a changed file, also used as a flag of a grade. The first has precedence."""

    TEST_INFRASTRUCTURE = "test-infrastructure"
    """File that decides how tests run or which modules they import."""
    TEST_SURFACE = "test-surface"
    """Test, file in a test folder, or file that only tests read or import."""
    GENERATED = "generated"
    """File that a program generates."""
    SOURCE = "source"
    """Any other file; only these are graded."""


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
    """Classify a path by its name; `test_files` are tests under any name."""
    if INFRASTRUCTURE.fullmatch(path):
        return HunkClass.TEST_INFRASTRUCTURE
    if GENERATED.fullmatch(path):
        return HunkClass.GENERATED
    is_test = _is_in_the_place_of(path, test_files) or SURFACE.fullmatch(path)
    return HunkClass.TEST_SURFACE if is_test else HunkClass.SOURCE


def _is_in_the_place_of(path: str, test_files: Collection[str]) -> bool:
    """Return True for a test file, and for a path that takes the place of one or of its folder."""
    places = [PurePosixPath(file) for file in test_files]
    return any(place.is_relative_to(path) or PurePosixPath(path).is_relative_to(place) for place in places)
