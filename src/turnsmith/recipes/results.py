"""Results of evaluations: one record per checkpoint and task set, and all records in `results.json`."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from turnsmith.config import RunConfig
from turnsmith.config.files import validate
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, read_json

BASE = "base"
"""Stage name of the policy before any training."""


class EvalResult(BaseModel):
    """Result of the evaluation of one checkpoint on one task set."""

    stage: str
    task_set: str
    pass_at_1: float
    """Mean over runs of the share of tasks resolved."""
    sem: float | None
    """Standard error of Pass@1 over runs; None unless at least two runs have attempts that the infrastructure did not lose."""
    pass_at_k: float | None
    """Mean pass@k over tasks with k attempts that were not lost to the infrastructure; None if there are no such tasks."""
    k: int
    num_tasks: int
    num_runs: int
    mean_turns: float
    submit_rate: float
    outcomes: dict[str, int]
    per_task: dict[str, float]
    """Task id → share of runs that resolved the task."""
    num_lost: int
    """Number of rollouts lost to the infrastructure, which count in no statistic."""
    isolation: str
    """Tiers of isolation in which agents and tests ran, separated by commas."""
    lost_per_task: dict[str, int] = {}
    """Task id → number of rollouts lost to the infrastructure."""
    num_attempts: int | None = None
    """Number of attempts counted in `pass_at_1`; None in results of older versions."""
    num_tasks_at_k: int | None = None
    """Number of tasks with at least k attempts, which `pass_at_k` counts; None in results of older versions."""
    num_tasks_in_set: int | None = None
    """Number of all tasks of the set, including those that lost all attempts; None in results of older versions."""
    pass_at_1_bounds: tuple[float, float] | None = None
    """Pass@1 over all tasks if every lost attempt had failed, and if every one had succeeded."""
    pass_at_k_bounds: tuple[float, float] | None = None
    """pass@k over all tasks if every lost attempt had failed, and if every one had succeeded."""
    sampling: dict[str, float] = {}
    """Sampling parameters that differ from their defaults."""
    versions: dict[str, str] = {}
    """Software versions of the process that finished the evaluation; empty in results of older versions."""


RESULT_FIELDS = tuple(name for name in EvalResult.model_fields if name not in ("per_task", "lost_per_task"))
"""Fields of an EvalResult that `results.json` contains; a field is null if an older version did not write it."""


def read_config(folder: RunFolder) -> RunConfig:
    """Read the configuration of a run. Raises UsageError."""
    return validate(read_json(folder.config), folder.config, RunConfig)


def list_evaluations(folder: RunFolder, stages: Iterable[str], task_sets: Sequence[str]) -> list[tuple[str, str]]:
    """List stage and task set of each finished evaluation, in the order of the run.

    Earlier checkpoints of a stage come before it: `stage1@4`, then `stage1`.
    """
    names = [name for stage in stages for name in (*folder.earlier_evaluations(stage), stage)]
    every = [(name, task_set) for name in names for task_set in task_sets]
    return [(name, task_set) for name, task_set in every if folder.result(name, task_set).exists()]


def read_results(folder: RunFolder, stages: Iterable[str], task_sets: Sequence[str]) -> list[dict[str, Any]]:
    """Read `RESULT_FIELDS` of each finished evaluation, in the order of the run. Raises UsageError if one is damaged."""
    results = [read_evaluation(folder, *evaluation) for evaluation in list_evaluations(folder, stages, task_sets)]
    return [{field: result.get(field) for field in RESULT_FIELDS} for result in results]


def read_evaluation(folder: RunFolder, stage: str, task_set: str) -> dict[str, Any]:
    """Read all fields of a finished evaluation. Raises UsageError if the file is damaged."""
    file = folder.result(stage, task_set)
    result = read_json(file)
    if not isinstance(result, dict) or not result.keys() >= {"pass_at_1", "per_task"}:
        raise UsageError(f"{file} is damaged: put back a copy of it, or start a new run")
    return result | {"stage": stage, "task_set": task_set}
