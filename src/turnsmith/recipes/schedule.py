"""Estimate of the time left for a run, from its last iterations and the work that remains."""

from collections.abc import Iterator
from dataclasses import dataclass

from turnsmith.config import StageConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.evaluate import is_evaluated
from turnsmith.runs.folder import read_json

NUM_ITERATIONS = 5
"""Number of finished iterations from which the pace is measured."""


@dataclass(frozen=True)
class RolloutPace:
    """Mean seconds for each rollout of an iteration."""

    collect_s: float
    train_s: float


def estimate_left(run: RunContext) -> float | None:
    """Estimate the seconds until the run ends; None before the first RL iteration has finished.

    Evaluations are expected to take as long for each rollout as the collection of an iteration. RFT precedes all iterations.
    """
    pace = measure_pace(run)
    if pace is None:
        return None
    stages = list_open_stages(run)
    num_trained = sum(count_rollouts(stage, run) for stage in stages)
    num_evaluated = sum(
        len(each.tasks) for each in run.eval_tasks for stage in stages for _ in list_checkpoints(stage, run)
    )
    return num_trained * (pace.collect_s + pace.train_s) + num_evaluated * run.config.eval.num_runs * pace.collect_s


def measure_pace(run: RunContext) -> RolloutPace | None:
    """Measure the pace of the last finished iterations; None if there are none."""
    files = [
        run.folder.iteration(stage.name, number).metrics
        for stage in run.config.stages
        for number in range(run.folder.next_iteration(stage.name))
    ]
    found = [read_json(file) for file in files[-NUM_ITERATIONS:]]
    num = sum(metrics.get("rollouts/collected", 0) for metrics in found)
    if not num:
        return None
    collect_s, train_s = (sum(metrics[name] for metrics in found) for name in ("time/collect_s", "time/train_s"))
    return RolloutPace(collect_s / num, train_s / num)


def list_open_stages(run: RunContext) -> list[StageConfig]:
    """List the stages that have not ended: the last one that has begun, and those after it."""
    begun = [number for number, stage in enumerate(run.config.stages) if run.folder.next_iteration(stage.name)]
    return run.config.stages[max(begun, default=0) :]


def count_rollouts(stage: StageConfig, run: RunContext) -> int:
    """Count the rollouts of a stage's unfinished iterations."""
    num_tasks = min(stage.tasks_per_iteration, len(run.train_tasks.tasks))
    return (stage.iterations - run.folder.next_iteration(stage.name)) * num_tasks * stage.group_size


def list_checkpoints(stage: StageConfig, run: RunContext) -> Iterator[str]:
    """Yield the names of a stage's checkpoints that remain to be evaluated."""
    for num_done in range(run.folder.next_iteration(stage.name), stage.iterations):
        if is_evaluated(num_done, run.config.eval):
            yield run.folder.name_checkpoint(stage.name, num_done)
    yield stage.name
