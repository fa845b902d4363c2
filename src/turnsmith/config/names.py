"""What a configuration chooses by name: the names that come with Turnsmith, and import paths of anybody's own.

A name is short for an import path, so a thing of one's own differs in nothing from ours: `my_package.my_module:name`.
"""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from turnsmith.config.extras import EXTRA_OF, describe_missing
from turnsmith.errors import UsageError

BUILT_IN: dict[str, dict[str, str]] = {
    "algorithm": {
        "cispo": "turnsmith.algo.cispo:CISPO",
        "dapo": "turnsmith.algo.dapo:DAPO",
        "dr_grpo": "turnsmith.algo.dr_grpo:DR_GRPO",
        "grpo": "turnsmith.algo.grpo:GRPO",
        "gspo": "turnsmith.algo.gspo:GSPO",
        "rloo": "turnsmith.algo.rloo:RLOO",
    },
    "engine": {
        "inprocess": "turnsmith.recipes.policy.local:open_inprocess_engine",
        "openai": "turnsmith.recipes.policy.endpoint:open_endpoint",
        "vllm": "turnsmith.recipes.policy.vllm:open_vllm_engine",
    },
    "scaffold": {
        "bash": "turnsmith.agent.scaffolds.bash:BASH",
        "paper": "turnsmith.agent.scaffolds.paper:PAPER",
    },
    "tool": {
        "create": "turnsmith.agent.tools.editing:CREATE",
        "edit": "turnsmith.agent.tools.editing:EDIT",
        "goto": "turnsmith.agent.tools.viewing:GOTO",
        "open": "turnsmith.agent.tools.viewing:OPEN",
        "replace": "turnsmith.agent.tools.editing:REPLACE",
        "scroll_down": "turnsmith.agent.tools.viewing:SCROLL_DOWN",
        "scroll_up": "turnsmith.agent.tools.viewing:SCROLL_UP",
        "search_file": "turnsmith.agent.tools.searching:SEARCH_FILE",
        "submit": "turnsmith.agent.tools.submission:SUBMIT",
    },
    "tracker": {
        "tensorboard": "turnsmith.tracking.tensorboard:TensorBoard",
        "wandb": "turnsmith.tracking.wandb:WeightsAndBiases",
        "mlflow": "turnsmith.tracking.mlflow:MLflow",
    },
    "trainer": {"local": "turnsmith.recipes.policy.local:open_local_trainer"},
}
"""Import path of everything that has a name, by kind. They are text: nothing is imported before it is chosen."""

T = TypeVar("T")

IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def check_name(kind: str, name: str) -> str:
    """The name itself, nothing imported. Raises ValueError where it is neither known nor an import path."""
    known = BUILT_IN[kind]
    if name in known or IMPORT_PATH.fullmatch(name):
        return name
    raise ValueError(
        f"there is no {kind} {name!r}: give {', '.join(known)}, or an import path as my_package.my_module:name"
    )


def load_by_name(kind: str, name: str) -> Any:
    """What a known name or an import path stands for. Raises UsageError where that is nothing, or its module fails."""
    try:
        path = BUILT_IN[kind].get(name) or check_name(kind, name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    module_name, _, attribute = path.partition(":")
    module = _import(module_name)
    if not hasattr(module, attribute):
        raise UsageError(f"the module {module_name} has no {attribute!r}: give a name that it defines")
    return getattr(module, attribute)


def load_instance(kind: str, name: str, cls: type[T]) -> T:
    """The same, being an instance of a class. Raises UsageError where it is not."""
    found = load_by_name(kind, name)
    if not isinstance(found, cls):
        raise UsageError(f"{kind} {name} is a {type(found).__name__}: give a {cls.__module__}.{cls.__name__}")
    return found


def _import(name: str) -> ModuleType:
    """Import a module; one that is not installed is looked for in the working directory, as `python -m` would."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ImportError) and error.name in EXTRA_OF:
            raise UsageError(describe_missing(error.name, name)) from None
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {error.name}: install it, or start in the folder that holds it"
            ) from None
        fault = f"{type(error).__name__}: {error}"
        raise UsageError(f"{name} cannot be imported ({fault}): `python -c 'import {name}'` shows where") from error
