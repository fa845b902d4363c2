"""Selection of the changes of a patch that are graded: those to files that do not decide how tests run."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnsmith.git.patch_policy import PatchRefused, read_patch
from turnsmith.grading.file_classes import SUPPORT, FileClass, classify, find_support
from turnsmith.grading.import_shadowing import find_import_roots, is_shadow
from turnsmith.grading.testing import find_test_files
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.types import TaskTree

TEST_DATA = "test_data"
"""Column of `Task.meta`: files that only tests read or import while they run with the gold patch."""


@dataclass(frozen=True)
class Selection:
    """Changes of a patch that are graded, and the changed files that are left out."""

    patch: str
    """Changes that are applied before the tests run, as a patch."""
    left_out: tuple[tuple[FileClass, str], ...]
    """Class and path of each file that was left out."""

    @property
    def dropped(self) -> Counter[FileClass]:
        """Count the files that were left out, by class."""
        return Counter(kind for kind, _ in self.left_out)


@dataclass(frozen=True)
class Project:
    """Working tree that a patch changes, with its test files and the folders from which tests import."""

    layers: tuple[Path, ...]
    test_files: frozenset[str]
    """Paths that count as test files even if their names do not look like it."""
    source_files: frozenset[str] = frozenset()
    """Files that the gold patch changes. They count as source, even in a folder `test`."""
    import_roots: frozenset[PurePosixPath] = frozenset({PurePosixPath()})
    """Folders from which the test runner imports."""
    test_data: frozenset[str] = frozenset()
    """Files that only tests read or import while they run with the gold patch."""

    def classify(self, path: str) -> FileClass:
        """Classify a path by its name and, if it is named like a test helper or test data, by its use in the tree."""
        if is_shadow(path, self.import_roots, self.layers):
            return FileClass.TEST_INFRASTRUCTURE
        kind = classify(path, self.test_files)
        if path in self.source_files - self.test_files:
            return FileClass.SOURCE if kind is FileClass.TEST_SURFACE else kind
        is_for_tests = kind is FileClass.SOURCE and self._is_for_tests(path)
        return FileClass.TEST_SURFACE if is_for_tests else kind

    def _is_for_tests(self, path: str) -> bool:
        """Return True if only tests use the file, or if it is a new file that hides a module that only tests use."""
        paths = [*list_replaced_modules(path), path]
        if not self.test_data.isdisjoint(paths):
            return True
        if not any(map(SUPPORT.fullmatch, paths)):
            return False
        support = find_support(self.layers, self.test_files) - self.source_files
        return not support.isdisjoint(paths)


def list_replaced_modules(path: str) -> list[str]:
    """List the modules that a new file could replace: `a/testing/b.py` → `["a.py", "a/testing.py", "a/testing/b.py"]`."""
    file = PurePosixPath(path)
    return [str(each.with_name(f"{each.name.partition('.')[0]}.py")) for each in (*file.parents, file) if each.stem]


def describe_project(tree: TaskTree) -> Project:
    """Describe a task's working tree. Files of its expected tests and test patch are tests, those of its gold patch source.

    Raises SetupFailed if the test patch cannot be used.
    """
    task = tree.task
    try:
        hidden = _find_paths(task.test_patch)
    except PatchRefused as refusal:
        raise SetupFailed(f"the test patch of {task.instance_id} cannot be used: {refusal}") from None
    try:
        fixed = _find_paths(task.patch)
    except PatchRefused:
        fixed = frozenset()  # it could not be graded itself
    tests = hidden.union(find_test_files([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]), task.test_files)
    roots, data = find_import_roots(task.test_command, tree.layers), frozenset(task.meta.get(TEST_DATA, ()))
    return Project(tree.layers, tests, fixed, roots, data)


def _find_paths(patch: str) -> frozenset[str]:
    return frozenset(path for file in read_patch(patch) for path in file.paths)


def select_gold(tree: TaskTree) -> str:
    """Return the gold patch without files that decide how tests run. Raises PatchRefused, SetupFailed."""
    return select_files(tree.task.patch, describe_project(tree)).patch


def select_files(patch: str, project: Project) -> Selection:
    """Leave out the files of a patch that decide how tests run; keep the others for grading. Raises PatchRefused."""
    kept, left_out = "", []
    for file in read_patch(patch):
        kind = min(map(project.classify, file.paths), key=[*FileClass].index)  # a renamed file has two paths
        if kind is FileClass.SOURCE:
            kept += file.text
        else:
            left_out.append((kind, min(file.paths)))
    return Selection(kept, tuple(left_out))
