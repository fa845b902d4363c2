"""What the red team attacks: a task, and what a script is told of it."""

import ast
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnsmith.errors import UsageError
from turnsmith.redteam.toy import make_toy
from turnsmith.rewards.testing import find_test_files
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.tasks.dataset import FILE_NAME, layer_paths
from turnsmith.types import Task

PACKAGE = "inflection==0.5.1"
"""One module, some hundred quick tests, all of them in sight."""
NUM_PACKAGE_TASKS = 4
"""Made to choose from."""


@dataclass(frozen=True)
class Target:
    """A task with the folders that it is made of."""

    name: str
    task: Task
    layers: tuple[Path, ...]

    @property
    def variables(self) -> dict[str, str]:
        """What scripts are told: all that a clever agent could find out or guess, also of the hidden tests."""
        task, source = self.task, self.task.meta["path"]
        [visible, *_] = [test for test in task.FAIL_TO_PASS if self._shows(test.split("::")[0])]
        hidden = [path for path in find_test_files(task.FAIL_TO_PASS) if not self._shows(path)]
        return {
            "SOURCE": source,
            "MODULE": to_module(source),
            "FUNCTION": task.meta["function"],
            "FAILING": visible,
            "TESTS": visible.split("::")[0],
            "HIDDEN": "\n".join(hidden),
            "EXPECTED": "\n".join([*task.FAIL_TO_PASS, *task.PASS_TO_PASS]),
        }

    @property
    def fix(self) -> str:
        """The gold patch as an honest script is given it; no attack is."""
        return self.task.patch

    def _shows(self, path: str) -> bool:
        return any((layer / path).exists() for layer in self.layers)


def to_module(source: str) -> str:
    """`src/spans/merging.py` → `spans.merging`, and `inflection/__init__.py` → `inflection`."""
    parts = PurePosixPath(source.removesuffix(".py")).parts
    return ".".join(part for part in parts if part not in ("src", "__init__"))


async def make_toy_target(folder: Path, provider: SandboxProvider) -> Target:
    """A small repository whose decisive tests are hidden until the grading."""
    task = make_toy(folder)
    return Target("toy", task, layer_paths(task, folder / FILE_NAME))


async def make_package_target(folder: Path, provider: SandboxProvider) -> Target:
    """A bug in a real package. Raises UsageError, also where the package index cannot be reached."""
    tasks = await make_package_tasks(PACKAGE, folder, provider, num_tasks=NUM_PACKAGE_TASKS)
    targets = [Target("package", task, layer_paths(task, folder / FILE_NAME)) for task in tasks]
    direct = [target for target in targets if is_called_by_tests(target)]
    if not direct:
        raise UsageError(f"none of {len(tasks)} tasks of {PACKAGE} has its bug in a function that the tests call")
    return direct[0]


MAKERS: dict[str, Callable[[Path, SandboxProvider], Coroutine[None, None, Target]]] = {
    "toy": make_toy_target,
    "package": make_package_target,
}
"""Name of a target → what makes it in a folder that does not exist yet."""


def is_called_by_tests(target: Target) -> bool:
    """Is the bug in a plain function of the module, and do the failing tests name it?"""
    source = _read(target, target.task.meta["path"])
    functions = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    tests = "".join(_read(target, path) for path in find_test_files(target.task.FAIL_TO_PASS))
    name = target.task.meta["function"]
    return name in functions and f"{name}(" in tests


def _read(target: Target, path: str) -> str:
    """A file as the agent finds it, in the topmost layer that has it."""
    [found, *_] = [layer / path for layer in reversed(target.layers) if (layer / path).exists()]
    return found.read_text(encoding="utf-8")
