"""When a stage stops before its last iteration: decided from what is on disk, so a resumed run decides the same."""

import statistics

from turnsmith.config import StageConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.evaluate import is_evaluated
from turnsmith.runs import read_json


def has_plateaued(stage: StageConfig, num_done: int, run: RunContext) -> bool:
    """After so many iterations: did the last `stage.plateau` scores bring none that is better than all before?"""
    scores = read_scores(stage, num_done, run)
    return 0 < stage.plateau <= count_since_best(scores)


def count_since_best(scores: list[float]) -> int:
    """Scores after the first that none surpassed: `[0.2, 0.5, 0.4, 0.5]` → 2."""
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0


def read_scores(stage: StageConfig, num_done: int, run: RunContext) -> list[float]:
    """Mean Pass@1 of each evaluation inside the stage, or where there are none the solve rate of each iteration."""
    if run.config.eval.every:
        return [read_pass_at_1(stage, at, run) for at in range(1, num_done + 1) if is_evaluated(at, run.config.eval)]
    metrics = (read_json(run.folder.metrics(stage.name, at)) for at in range(num_done))
    return [each["rollouts/resolved_rate"] for each in metrics]


def read_pass_at_1(stage: StageConfig, num_done: int, run: RunContext) -> float:
    """Mean over the task sets that are evaluated inside of a stage."""
    name = run.folder.name_checkpoint(stage.name, num_done)
    results = (read_json(run.folder.result(name, task_set.name)) for task_set in run.inner_eval_tasks)
    return statistics.fmean(result["pass_at_1"] for result in results)
