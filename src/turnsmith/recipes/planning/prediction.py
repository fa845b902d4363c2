"""Prediction for a configuration: plan, bottleneck, changes and, with a finished run, calibration and its error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.plan import ITEMSIZES
from turnsmith.recipes.planning.calibration import (
    Calibration,
    Collect,
    MeasuredIteration,
    calibrate,
    mean_collect_s,
    pool,
    read_run,
)
from turnsmith.recipes.planning.changes import PlannedChange, find_changes, name_bottleneck
from turnsmith.recipes.planning.estimate import Premises, RunPlan, collect, lay_out_engine, plan_run
from turnsmith.recipes.planning.hardware import Hardware
from turnsmith.recipes.planning.rates import describe_assumptions, describe_hardware, find_speed
from turnsmith.recipes.planning.simulation import Collected
from turnsmith.recipes.planning.workload import EpisodeSize
from turnsmith.recipes.results import read_config
from turnsmith.runs.folder import RunFolder
from turnsmith.training.directories import find_model
from turnsmith.training.shape import read_shape


@dataclass(frozen=True)
class PlannedRun:
    """Plan with what a reader needs to judge it."""

    plan: RunPlan
    bottleneck: str
    changes: list[PlannedChange]
    assumptions: list[str]
    errors: dict[str, float]
    """Relative error of the prediction of iterations that the calibration did not use: `collect`, `train`, `iteration`."""


def predict(
    config: RunConfig, hardware: Hardware, num_cores: int, price: float | None, source: Path | None
) -> PlannedRun:
    """Plan a run, calibrated by a finished run if one is given. Raises UsageError."""
    premises, errors = Premises(hardware, num_cores, price), dict[str, float]()
    if source:
        premises, errors = calibrate_premises(premises, source)
    plan = plan_run(config, premises)
    changes = find_changes(config, premises, plan)
    assumptions = [*describe_premises(config, premises, errors), *describe_hardware(hardware)]
    return PlannedRun(plan, name_bottleneck(plan), changes, assumptions, errors)


def calibrate_premises(premises: Premises, source: Path) -> tuple[Premises, dict[str, float]]:
    """Take sizes of episodes and speeds from a finished run; return also the errors of its own prediction. Raises UsageError."""
    if not (source / "config.json").is_file():
        raise UsageError(f"--from {source} is not a run: give a folder that `turnsmith run` has made")
    measured, own = read_run(RunFolder(source)), read_config(RunFolder(source))
    calibration = calibrate_run(measured, own, premises)
    name = f"{source}, {len(measured)} iterations"
    workload = pool(measured, calibration.core_scale, name)
    return replace(premises, workload=workload, calibration=calibration), find_errors(measured, own, premises)


def describe_premises(config: RunConfig, premises: Premises, errors: dict[str, float]) -> list[str]:
    """Describe in sentences where sizes and speeds come from: a run, or assumptions."""
    if premises.workload:
        return [f"sizes of episodes and speeds: {premises.workload.source}", *describe_errors(errors)]
    layout = lay_out_engine(config, premises.hardware, read_shape(find_model(config.model.path)))
    return describe_assumptions(layout.step_s)


def calibrate_run(measured: Sequence[MeasuredIteration], config: RunConfig, premises: Premises) -> Calibration:
    """Calibrate engine, cores and trainer by measured iterations of a configuration."""
    return calibrate(measured, find_collection(config, premises))


def find_collection(config: RunConfig, premises: Premises) -> Collect:
    """Return the function that simulates collections under a configuration."""
    shape = read_shape(find_model(config.model.path))
    layout = lay_out_engine(config, premises.hardware, shape)

    def simulate_collection(episodes: Sequence[EpisodeSize], scale: float) -> Collected:
        mean_tokens = fmean(episode.num_tokens for episode in episodes)
        speed = find_speed(shape, premises.hardware, layout, mean_tokens, ITEMSIZES[config.model.dtype], scale)
        return collect(episodes, config, premises.num_cores, speed)

    return simulate_collection


def find_errors(measured: Sequence[MeasuredIteration], config: RunConfig, premises: Premises) -> dict[str, float]:
    """Calibrate by every second iteration, predict the mean of the others, and return the relative errors."""
    known, others = measured[::2], measured[1::2]
    calibration = calibrate_run(known, config, premises)
    collect_s = mean_collect_s(
        others, find_collection(config, premises), calibration.engine_scale, calibration.core_scale
    )
    train_s = fmean(each.tokens_trained / calibration.trained_per_s for each in others)
    predicted = {"collect": collect_s, "train": train_s, "iteration": collect_s + train_s}
    actual = {
        "collect": fmean(each.collect_s for each in others),
        "train": fmean(each.train_s for each in others),
        "iteration": fmean(each.seconds for each in others),
    }
    return {name: predicted[name] / actual[name] - 1 for name in predicted}


def describe_errors(errors: dict[str, float]) -> list[str]:
    """Describe the errors of the calibration in a sentence."""
    parts = ", ".join(f"{name} {error:+.0%}" for name, error in errors.items())
    return [f"error on iterations of that run which the calibration did not use: {parts}"]
