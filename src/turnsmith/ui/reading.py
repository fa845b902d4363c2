"""What a run folder holds, read for people: configuration, results, metrics of the iterations, trajectories."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.config_files import validate
from turnsmith.errors import UsageError
from turnsmith.runs import RunFolder, read_json, read_records
from turnsmith.tasks.dataset import load_tasks
from turnsmith.types import Task, Trajectory

RESULT_FIELDS = (
    "stage", "task_set", "pass_at_1", "sem", "pass_at_k", "k",
    "num_tasks", "num_runs", "mean_turns", "submit_rate", "outcomes", "num_lost", "isolation",
)  # fmt: skip
"""What `turnsmith results --json` shows of an evaluation."""


@dataclass(frozen=True)
class Iteration:
    """One finished iteration."""

    stage: str
    number: int
    metrics: dict[str, float]


def read_config(folder: RunFolder) -> RunConfig:
    """The resolved configuration of a run. Raises UsageError where the folder is not one of a run."""
    return validate(read_json(folder.config), folder.config, RunConfig)


def list_stages(config: RunConfig) -> list[str]:
    """Names of the stages in order: base, RFT, the stages of RL."""
    return ["base", *(["rft"] if config.rft else []), *(stage.name for stage in config.stages)]


def read_results(folder: RunFolder) -> list[dict[str, Any]]:
    """One entry for each finished evaluation, in the order of the run."""
    config = read_config(folder)
    files = [folder.result(stage, task_set) for stage in list_stages(config) for task_set in config.eval_tasks]
    return [_read_result(file) for file in files if file.exists()]


def _read_result(file: Path) -> dict[str, Any]:
    result = read_json(file)
    try:
        return {field: result[field] for field in RESULT_FIELDS}
    except (KeyError, TypeError):
        raise UsageError(f"{file} is damaged: put back a copy of it, or start a new run") from None


def read_iterations(folder: RunFolder) -> list[Iteration]:
    """All finished iterations, in the order of the run; RFT is one."""
    return [
        Iteration(stage, number, read_json(folder.metrics(stage, number)))
        for stage in list_stages(read_config(folder))
        for number in range(folder.next_iteration(stage))
    ]


def read_trajectories(folder: RunFolder, beginning: str) -> Iterator[Trajectory]:
    """The trajectories whose id begins with the given text; of one that was lost and made again, the last."""
    for journal in folder.journals():
        records = read_records(journal, Trajectory, containing=beginning)
        yield from {t.trajectory_id: t for t in records if t.trajectory_id.startswith(beginning)}.values()


def find_task(folder: RunFolder, instance_id: str) -> Task | None:
    """The task of a trajectory, where its task set can still be read."""
    for name, task_set in read_config(folder).task_sets.items():
        for task in _read_tasks(folder, name, task_set):
            if task.instance_id == instance_id:
                return task
    return None


def _read_tasks(folder: RunFolder, name: str, task_set: TaskSetConfig) -> list[Task]:
    try:
        return load_tasks(Path(task_set.path) if task_set.path else folder.task_set(name))
    except UsageError:
        # The run folder may have come here alone, without the tasks that it was made from.
        return []
