"""Paths from the root, so that a run can be resumed from anywhere."""

from collections.abc import Sequence
from pathlib import Path

from turnsmith.agent.prompts import list_packaged
from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.synthesis.sources import REQUIREMENT


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """The same with every path from the root."""
    return config.model_copy(
        update={
            "model": config.model.model_copy(update={"path": make_absolute(config.model.path, names=("tiny",))}),
            "agent": config.agent.model_copy(
                update={"prompts": make_absolute(config.agent.prompts, names=list_packaged())}
            ),
            "train_tasks": config.train_tasks and anchor(config.train_tasks),
            "eval_tasks": {name: anchor(task_set) for name, task_set in config.eval_tasks.items()},
            "stages": [
                stage.model_copy(update={"curriculum_from": make_absolute(stage.curriculum_from)})
                for stage in config.stages
            ],
        }
    )


def anchor(tasks: TaskSetConfig) -> TaskSetConfig:
    """The same with absolute paths; `name==version` is none."""
    package = tasks.package if REQUIREMENT.fullmatch(tasks.package or "") else make_absolute(tasks.package)
    return tasks.model_copy(update={"path": make_absolute(tasks.path), "package": package})


def make_absolute(path: str | None, names: Sequence[str] = ()) -> str | None:
    """A path from the root, unless it is one of the names that stand for something else."""
    return str(Path(path).absolute()) if path and path not in names else path
