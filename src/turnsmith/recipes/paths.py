"""Absolute paths in a configuration, so that a run can be resumed from any working directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnsmith.agent.prompts import list_packaged
from turnsmith.chat.template import OWN
from turnsmith.config import (
    AgentConfig,
    ChatConfig,
    ModelConfig,
    PathKey,
    RunConfig,
    SandboxConfig,
    Section,
    TaskSetConfig,
    VllmConfig,
)
from turnsmith.policies import PACKAGED
from turnsmith.synthesis.sources import REQUIREMENT
from turnsmith.tasks.selection import BUILT_IN
from turnsmith.training.published.hub import PREFIX


def has_no_slash(value: str) -> bool:
    return "/" not in value


def is_model_name(value: str) -> bool:
    """Return True for a packaged model or a model of the Hugging Face hub."""
    return value in PACKAGED or value.startswith(PREFIX)


def has_no_dot(value: str) -> bool:
    return not value.startswith(".")


NAMES: dict[tuple[type[Section], str], Callable[[str], object]] = {
    (ModelConfig, "path"): is_model_name,
    (ChatConfig, "template"): OWN.__contains__,
    (AgentConfig, "prompts"): list_packaged().__contains__,
    (SandboxConfig, "image"): has_no_dot,
    (SandboxConfig, "container_engine"): has_no_slash,
    (VllmConfig, "python"): has_no_slash,
    (TaskSetConfig, "subset"): BUILT_IN.__contains__,
    (TaskSetConfig, "package"): REQUIREMENT.fullmatch,
}
"""Section and key of a path that may also be a name → test whether a value is a name."""


def make_paths_absolute(config: RunConfig) -> RunConfig:
    """Return a copy of the configuration in which every path is absolute. In options, a path begins with `./` or `../`."""
    return RunConfig.model_validate(_anchor(config))


def _anchor(value: Any, *, in_options: bool = False) -> Any:
    """Convert a section, or a list or table of values, to plain data with absolute paths."""
    match value:
        case Section():
            return {key: _anchor_key(value, key) for key in type(value).model_fields}
        case dict():
            return {key: _anchor(item, in_options=in_options) for key, item in value.items()}
        case list():
            return [_anchor(item, in_options=in_options) for item in value]
        case str() if in_options and value.startswith(("./", "../")):
            return str(Path(value).absolute())
    return value


def _anchor_key(section: Section, key: str) -> Any:
    value = getattr(section, key)
    is_marked = PathKey() in type(section).model_fields[key].metadata
    if not is_marked or not isinstance(value, str):
        return _anchor(value, in_options=is_marked)
    is_name = NAMES.get((type(section), key))
    return value if not value or (is_name and is_name(value)) else str(Path(value).absolute())
