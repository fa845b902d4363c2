"""Iterations whose groups carry no signal teach nothing; too many in a row stop a stage."""

import statistics

from turnsmith.config import StageConfig
from turnsmith.errors import NoSignal
from turnsmith.recipes.context import RunContext
from turnsmith.runs import read_json

REMEDIES = {0.0: "easier tasks, more turns or a stronger base", 1.0: "harder tasks"}
"""What helps where no rollout is resolved, or every one."""
OTHERWISE = "a larger group_size, or tasks that are resolved now and then"


def check_silence(stage: StageConfig, run: RunContext) -> None:
    """Raises NoSignal where the last iterations of the stage, too many in a row, have taught nothing."""
    folder, bound = run.folder, stage.max_silent_iterations
    done = folder.next_iteration(stage.name)
    last = [read_json(folder.metrics(stage.name, number)) for number in range(max(0, done - bound), done)]
    if len(last) < bound or any(metrics["groups/with_signal"] for metrics in last):
        return
    rate = statistics.fmean(metrics["rollouts/resolved_rate"] for metrics in last)
    key = f"stages.{run.config.stages.index(stage)}.max_silent_iterations"
    raise NoSignal(
        f"{stage.name}: in {bound} iterations in a row no group carried signal, {rate:.0%} of rollouts being resolved: a new "
        f"run needs {REMEDIES.get(rate, OTHERWISE)}; this one goes on by `turnsmith resume {folder.path} --{key} {2 * bound}`"
    )


def warn_of_silence(stage: StageConfig, iteration: int, metrics: dict[str, float], run: RunContext) -> None:
    """Say it of each such iteration."""
    if not metrics["groups/with_signal"]:
        run.progress.say(
            f"warning: no group of {stage.name} carried signal in iteration {iteration + 1}: nothing is learned"
        )
