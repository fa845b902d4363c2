"""What each file of a patch is to the tests, and what of the patch reaches them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnsmith.git.patch_policy import FilePatch, PatchRefused, read_patch
from turnsmith.grading.file_classes import HunkClass, classify
from turnsmith.grading.import_shadowing import find_import_roots, is_shadow
from turnsmith.grading.support import SUPPORT, find_support
from turnsmith.grading.testing import find_test_files
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.types import TaskTree

TEST_DATA = "test_data"
"""Column of `Task.meta`: files that only tests read or import while they run with the gold patch."""


@dataclass(frozen=True)
class Selection:
    """A patch, sorted."""

    patch: str
    """What reaches the tests."""
    dropped: Counter[HunkClass]
    """Files that were left out, by class."""
    left_out: tuple[tuple[HunkClass, str], ...]
    """The same by name."""


@dataclass(frozen=True)
class Project:
    """What is known of the tree that a patch changes."""

    layers: tuple[Path, ...]
    test_files: frozenset[str]
    """Tests, whatever they are called."""
    source_files: frozenset[str] = frozenset()
    """What a fix changes is no test, though it lies in a folder `test`."""
    import_roots: frozenset[PurePosixPath] = frozenset({PurePosixPath()})
    """Folders that the imports of the test runner start from."""
    test_data: frozenset[str] = frozenset()
    """Files that only tests read or import while they run with the gold patch."""

    def classify(self, path: str) -> HunkClass:
        """Classify a path. Reads the tree where the name is that of a helper or of data of tests."""
        if is_shadow(path, self.import_roots, self.layers):
            return HunkClass.TEST_INFRASTRUCTURE
        kind = classify(path, self.test_files)
        if path in self.source_files - self.test_files:
            return HunkClass.SOURCE if kind is HunkClass.TEST_SURFACE else kind
        is_for_tests = kind is HunkClass.SOURCE and self._is_for_tests(path)
        return HunkClass.TEST_SURFACE if is_for_tests else kind

    def _is_for_tests(self, path: str) -> bool:
        """Check that only tests read or import a file that is not among the tests, or one that it would hide."""
        return not self.test_data.isdisjoint([*list_stand_ins(path), path]) or self._is_support(path)

    def _is_support(self, path: str) -> bool:
        """Check for a test helper or test data that no source mentions, or for what would be imported in its place."""
        places = [*list_stand_ins(path), path]
        if not any(map(SUPPORT.fullmatch, places)):
            return False
        support = find_support(self.layers, self.test_files) - self.source_files
        return not support.isdisjoint(places)


def list_stand_ins(path: str) -> list[str]:
    """List the modules that a file would hide: `a/testing/b.py` → `["a.py", "a/testing.py", "a/testing/b.py"]`."""
    place = PurePosixPath(path)
    return [str(each.with_name(f"{each.name.partition('.')[0]}.py")) for each in (*place.parents, place) if each.stem]


def describe_project(tree: TaskTree) -> Project:
    """What a task says of its tree, by its gold patch and its hidden tests, too. Raises SetupFailed."""
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
    """The gold patch as it would be graded. Raises PatchRefused, SetupFailed."""
    return select_hunks(tree.task.patch, describe_project(tree)).patch


def select_hunks(patch: str, project: Project) -> Selection:
    """Sort the files of a patch and leave out what has a say over the tests. Raises PatchRefused."""
    sorted_files = [(_classify_file(file, project), file) for file in read_patch(patch)]
    kept = [file.text for kind, file in sorted_files if kind is HunkClass.SOURCE]
    left_out = [(kind, file) for kind, file in sorted_files if kind is not HunkClass.SOURCE]
    names = tuple((kind, min(file.paths)) for kind, file in left_out)
    return Selection("".join(kept), Counter(kind for kind, _ in left_out), names)


def _classify_file(file: FilePatch, project: Project) -> HunkClass:
    """The gravest class of the paths that it names: a renamed file has two."""
    return min(map(project.classify, file.paths), key=[*HunkClass].index)
