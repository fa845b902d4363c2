"""Absolute paths in a configuration, so that a run can be resumed from any working directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnsmith.agent.prompts import list_packaged
from turnsmith.chat.template import OWN
from turnsmith.config import RunConfig
from turnsmith.policies import PACKAGED
from turnsmith.synthesis.sources import REQUIREMENT
from turnsmith.tasks.selection import BUILT_IN


def make_paths_absolute(config: RunConfig) -> RunConfig:
    """Return a copy of the configuration in which every path is absolute."""
    data = config.model_dump()
    _anchor(data["model"], "path", names=[*PACKAGED])
    _anchor(data["model"]["chat"], "template", names=[*OWN])
    _anchor(data["agent"], "prompts", names=list_packaged())
    if config.sandbox.image.startswith("."):
        _anchor(data["sandbox"], "image")
    for tasks in filter(None, [data["train_tasks"], *data["eval_tasks"].values()]):
        _anchor(tasks, "path")
        _anchor(tasks, "subset", names=[*BUILT_IN])
        if not REQUIREMENT.fullmatch(tasks["package"] or ""):
            _anchor(tasks, "package")
    if data["rft"]:
        _anchor(data["rft"], "conversations")
    for stage in data["stages"]:
        _anchor(stage, "curriculum_from")
    return RunConfig.model_validate(data)


def _anchor(section: dict[str, Any], key: str, names: Sequence[str] = ()) -> None:
    """Make the path under a key of a section absolute, in place, unless it is one of `names`, which are not paths."""
    if section[key] and section[key] not in names:
        section[key] = str(Path(section[key]).absolute())
