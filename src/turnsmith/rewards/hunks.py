"""What each file of a patch is to the tests, and what of the patch reaches them."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from turnsmith.rewards.patches import FilePatch, read_patch
from turnsmith.rewards.shadows import is_shadow


class HunkClass(StrEnum):
    """What a changed file is; the value is also the flag that it leaves in a grade."""

    SOURCE = "source"
    """Code, data, documentation: what is graded."""
    TEST_SURFACE = "test-surface"
    """A test, or what lies among the tests."""
    TEST_INFRASTRUCTURE = "test-infrastructure"
    """Decides how tests run or which modules they get."""
    BUILD = "build"
    """Decides how the project is built or installed, which grading does not do."""
    GENERATED = "generated"
    """Made by a program from something else."""


LEFT_OUT = (HunkClass.TEST_SURFACE, HunkClass.TEST_INFRASTRUCTURE, HunkClass.GENERATED)
"""Classes that never reach the tests."""

INFRASTRUCTURE_FILES = {
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "noxfile.py",
    "sitecustomize.py",
    "usercustomize.py",
}
INFRASTRUCTURE_NAMES = re.compile(r".*\.pth|.*\.(dist|egg)-info|.*\.egg-link", re.IGNORECASE)
"""Of files, or of folders on the way to one: plugins are found by the last two."""
SURFACE_FOLDERS = {"test", "tests"}
SURFACE_FILES = re.compile(r"test_.*\.py|.*_test\.py")
BUILD_FILES = {"setup.py", "Makefile", "MANIFEST.in", "Dockerfile", "environment.yml", "meson.build", "CMakeLists.txt"}
BUILD_NAMES = re.compile(r"requirements.*\.(txt|in)|.*\.lock")
GENERATED_FOLDERS = {
    "__pycache__",
    ".pytest_cache",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".eggs",
}
GENERATED_FILES = re.compile(r".*\.py[co]|\.coverage.*")


@dataclass(frozen=True)
class Selection:
    """A patch, sorted."""

    patch: str
    """What reaches the tests."""
    classes: Counter[HunkClass]
    """Files of each class in the whole patch."""

    @property
    def dropped(self) -> Counter[HunkClass]:
        """Files that were left out, by class."""
        return Counter({kind: self.classes[kind] for kind in LEFT_OUT if self.classes[kind]})


@dataclass(frozen=True)
class Project:
    """What is known of the tree that a patch changes."""

    layers: tuple[Path, ...]
    test_files: frozenset[str]
    """Tests, whatever they are called."""
    source_files: frozenset[str] = frozenset()
    """What a fix changes is no test, though it lies in a folder `test`."""
    import_roots: frozenset[PurePosixPath] = frozenset({PurePosixPath()})
    """Folders that the imports of the tests start from."""

    def classify(self, path: str) -> HunkClass:
        if is_shadow(path, self.import_roots, self.layers):
            return HunkClass.TEST_INFRASTRUCTURE
        kind = classify(path, self.test_files)
        is_fixed = kind is HunkClass.TEST_SURFACE and path in self.source_files - self.test_files
        return HunkClass.SOURCE if is_fixed else kind


def select_hunks(patch: str, project: Project) -> Selection:
    """Sort the files of a patch and leave out what has a say over the tests. Raises PatchRefused."""
    sorted_files = [(_classify_file(file, project), file.text) for file in read_patch(patch)]
    kept = [text for kind, text in sorted_files if kind not in LEFT_OUT]
    return Selection("".join(kept), Counter(kind for kind, _ in sorted_files))


def _classify_file(file: FilePatch, project: Project) -> HunkClass:
    """The gravest class of the paths that it names: a renamed file has two."""
    kinds = {project.classify(path) for path in file.paths}
    gravest_first = (HunkClass.TEST_INFRASTRUCTURE, HunkClass.TEST_SURFACE, HunkClass.GENERATED, HunkClass.BUILD)
    return next((kind for kind in gravest_first if kind in kinds), HunkClass.SOURCE)


def classify(path: str, test_files: Collection[str] = ()) -> HunkClass:
    """What a path is, by its names; `test_files` are tests whatever they are called."""
    *folders, name = PurePosixPath(path).parts
    if name in INFRASTRUCTURE_FILES or any(map(INFRASTRUCTURE_NAMES.fullmatch, (*folders, name))):
        return HunkClass.TEST_INFRASTRUCTURE
    if GENERATED_FOLDERS.intersection(folders) or GENERATED_FILES.fullmatch(name):
        return HunkClass.GENERATED
    if _is_in_the_place_of(path, test_files) or SURFACE_FOLDERS.intersection(folders) or SURFACE_FILES.fullmatch(name):
        return HunkClass.TEST_SURFACE
    return HunkClass.BUILD if name in BUILD_FILES or BUILD_NAMES.fullmatch(name) else HunkClass.SOURCE


def _is_in_the_place_of(path: str, test_files: Collection[str]) -> bool:
    """Is it a test file, a file where one's folder must be, or a file below what must be one?"""
    places = [PurePosixPath(file) for file in test_files]
    return any(place.is_relative_to(path) or PurePosixPath(path).is_relative_to(place) for place in places)
