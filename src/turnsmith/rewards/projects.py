"""What a task says of its tree, so that the hunks of a patch can be told apart."""

from collections.abc import Sequence
from pathlib import Path

from turnsmith.rewards.hunks import Project, select_hunks
from turnsmith.rewards.import_roots import find_import_roots
from turnsmith.rewards.patches import PatchRefused, read_patch
from turnsmith.rewards.preparing import SetupFailed
from turnsmith.rewards.testing import find_test_files
from turnsmith.types import Task


def select_gold(task: Task, layers: Sequence[Path]) -> str:
    """The gold patch as it would be graded. Raises PatchRefused, SetupFailed."""
    return select_hunks(task.patch, describe_project(task, layers)).patch


def describe_project(task: Task, layers: Sequence[Path]) -> Project:
    """The gold patch and the hidden tests included. Raises SetupFailed."""
    try:
        hidden = _find_paths(task.test_patch)
    except PatchRefused as refusal:
        raise SetupFailed(f"the test patch of {task.instance_id} cannot be used: {refusal}") from None
    tests = hidden.union(find_test_files([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]), task.test_files)
    return Project(tuple(layers), tests, _find_fixed(task), find_import_roots(tests, task.test_command, layers))


def _find_fixed(task: Task) -> frozenset[str]:
    """Files that the gold patch changes; none where it could not be graded itself."""
    try:
        return _find_paths(task.patch)
    except PatchRefused:
        return frozenset()


def _find_paths(patch: str) -> frozenset[str]:
    return frozenset(path for file in read_patch(patch) for path in file.paths)
