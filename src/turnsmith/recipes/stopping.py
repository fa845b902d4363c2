"""Conditions that end an RL stage early: success rates that no longer rise, or iterations in which all groups have equal results.

They use stored metrics, so a resumed run decides in the same way.
"""

import statistics

from turnsmith.config import StageConfig
from turnsmith.errors import NoSignal
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.evaluate import is_evaluated
from turnsmith.runs.folder import read_json

REMEDIES = {0.0: "easier tasks, more turns or a stronger base model", 1.0: "harder tasks"}
"""Share of resolved rollouts (0: none, 1: all) in iterations without unequal results → remedy that the error NoSignal gives."""
OTHERWISE = "a larger group_size, or tasks that are resolved sometimes"


def has_plateaued(stage: StageConfig, num_done: int, run: RunContext) -> bool:
    """Return True if none of the stage's last `plateau` success rates exceeds all earlier ones."""
    return 0 < stage.plateau <= count_since_best(read_rates(stage, num_done, run))


def count_since_best(rates: list[float]) -> int:
    """Count the values after the first occurrence of the maximum: `[0.2, 0.5, 0.4, 0.5]` → 2."""
    return len(rates) - 1 - rates.index(max(rates)) if rates else 0


def read_rates(stage: StageConfig, num_done: int, run: RunContext) -> list[float]:
    """Read the success rates of a stage: mean Pass@1 of each intermediate evaluation or, without these, solve rates."""
    if not run.config.eval.every:
        return [
            read_json(run.folder.iteration(stage.name, at).metrics)["rollouts/resolved_rate"] for at in range(num_done)
        ]
    names = [
        run.folder.name_checkpoint(stage.name, at) for at in range(num_done + 1) if is_evaluated(at, run.config.eval)
    ]
    files = [[run.folder.result(name, task_set.name) for task_set in run.eval_tasks] for name in names]
    return [statistics.fmean(read_json(file)["pass_at_1"] for file in of_one) for of_one in files]


def check_silence(stage: StageConfig, run: RunContext) -> None:
    """Raise NoSignal if no group of the last `max_silent_iterations` iterations had unequal results."""
    folder, bound = run.folder, stage.max_silent_iterations
    done = folder.next_iteration(stage.name)
    last = [read_json(folder.iteration(stage.name, number).metrics) for number in range(max(0, done - bound), done)]
    if len(last) < bound or any(metrics["groups/with_signal"] for metrics in last):
        return
    rate = statistics.fmean(metrics["rollouts/resolved_rate"] for metrics in last)
    key = f"stages.{run.config.stages.index(stage)}.max_silent_iterations"
    raise NoSignal(
        f"{stage.name}: in {bound} iterations in a row no group had unequal results, {rate:.0%} of rollouts being resolved: a "
        f"new run needs {REMEDIES.get(rate, OTHERWISE)}; continue by `turnsmith resume {folder.path} --{key} {2 * bound}`"
    )
