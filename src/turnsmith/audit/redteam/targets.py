"""Targets of the red team: tasks that its scripts attack, with the variables that scripts get."""

import json
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from turnsmith.errors import UsageError
from turnsmith.grading.cases import Case
from turnsmith.grading.opened_files import find_test_data
from turnsmith.grading.patch_selection import TEST_DATA
from turnsmith.grading.testing import find_test_files
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer, write_shared_layer
from turnsmith.tasks.dataset import FILE_NAME, layer_paths, save_tasks
from turnsmith.types import PYTEST_COMMAND, Task, TaskTree

PACKAGE = "inflection==0.5.1"
"""PyPI package from which the target named `package` is made. It has one module and about a hundred quick tests."""
NUM_PACKAGE_TASKS = 4
"""Number of tasks that are made of the package; one of them becomes the target."""
TESTS_TIMEOUT_S = 40.0
"""Time limit in seconds, enough for the tests of every target; some attacks use all of it."""


@dataclass(frozen=True)
class Target:
    """Task that scripts attack."""

    name: str
    tree: TaskTree

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that scripts get: all facts that an agent could find or guess, even about hidden tests."""
        task, source = self.tree.task, self.tree.task.meta["path"]
        [visible, *_] = [test for test in task.FAIL_TO_PASS if self.find(test.split("::")[0])]
        return {
            "SOURCE": source,
            "MODULE": to_module(source),
            "FUNCTION": task.meta["function"],
            "FAILING": visible,
            "TESTS": visible.split("::")[0],
            "HIDDEN": "\n".join(path for path in find_test_files(task.FAIL_TO_PASS) if not self.find(path)),
            "EXPECTED": "\n".join([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]),
        }

    def find(self, path: str) -> list[Path]:
        """Return a file's paths in the overlaid folders of the task's tree, topmost first; none for hidden test files."""
        return [layer / path for layer in reversed(self.tree.layers) if (layer / path).exists()]


def to_module(source: str) -> str:
    """Convert a path to a module name: `src/spans/merging.py` → `spans.merging`, `inflection/__init__.py` → `inflection`."""
    parts = PurePosixPath(source.removesuffix(".py")).parts
    return ".".join(part for part in parts if part not in ("src", "__init__"))


async def make_target(name: str, folder: Path, provider: SandboxProvider, scripts: Path) -> Target:
    """Make the named target in a new folder, and find the data files that only its tests read, as qualification does.

    Raises UsageError, also if the package index cannot be reached; SandboxError, GradingError.
    """
    target = make_toy(folder, scripts / "toy") if name == "toy" else await _make_package(name, folder, provider)
    data = await find_test_data(Case(target.tree, provider, TESTS_TIMEOUT_S))
    task = target.tree.task
    task = task.model_copy(update={"meta": task.meta | {TEST_DATA: data}})
    return Target(name, replace(target.tree, task=task))


async def _make_package(name: str, folder: Path, provider: SandboxProvider) -> Target:
    tasks = await make_package_tasks(PACKAGE, folder, provider, num_tasks=NUM_PACKAGE_TASKS)
    targets = [Target(name, TaskTree(task, layer_paths(task, folder / FILE_NAME))) for task in tasks]
    direct = [target for target in targets if is_called_by_tests(target)]
    if not direct:
        raise UsageError(f"none of {len(tasks)} tasks of {PACKAGE} has its bug in a function that the tests call")
    return direct[0]


def make_toy(folder: Path, source: Path) -> Target:
    """Make the target `toy` from the small repository among the scripts; its FAIL_TO_PASS tests are hidden. Raises UsageError."""
    facts = json.loads((source / "task.json").read_text(encoding="utf-8"))
    fixed, buggy = _read_texts(source / "fixed"), _read_texts(source / "buggy")
    write_shared_layer(folder / "layers/fixed", to_tree(fixed))
    changed = {path: text.encode() for path, text in buggy.items()}
    task = Task(
        **facts,
        base_commit=write_bug_layer(folder / "layers/buggy", to_tree(fixed), changed),
        patch="".join(make_patch(path, text, fixed[path]) for path, text in buggy.items()),
        test_patch=(source / "hidden-tests.patch").read_text(encoding="utf-8"),
        test_command=f"PYTHONPATH=src:$PYTHONPATH {PYTEST_COMMAND}",
    )
    save_tasks(folder, [task])
    return Target("toy", TaskTree(task, layer_paths(task, folder / FILE_NAME)))


def _read_texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.*"))}


def is_called_by_tests(target: Target) -> bool:
    """Return True if the bug is in a function at module level, not a method, that the failing tests call."""
    task = target.tree.task
    name, paths = task.meta["function"], find_test_files(task.FAIL_TO_PASS)
    source, *tests = [target.find(path)[0].read_text("utf-8") for path in (task.meta["path"], *paths)]
    return f"\ndef {name}(" in source and any(f"{name}(" in test for test in tests)
