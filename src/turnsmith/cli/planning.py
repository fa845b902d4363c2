"""`plan`: predict memory, time and cost of a run before it starts."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnsmith.cli.options import Json, answer
from turnsmith.cli.running import Config, read_configuration
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.recipes.planning.estimate import RunPlan
    from turnsmith.recipes.planning.prediction import PlannedRun

CORES_PER_GPU = 12
"""Cores that a machine has for each GPU, if `--cores` is not given."""

HardwareName = Annotated[
    str,
    typer.Option("--hardware", metavar="NAME", help="h100, h200, b200, a100, 4090, or cpu: this machine, measured."),
]
Cores = Annotated[
    int | None, typer.Option("--cores", metavar="N", min=1, help="Cores for sandboxes, of all machines together.")
]
Price = Annotated[float | None, typer.Option("--price", metavar="X", min=0, help="Price of one GPU for an hour.")]
From = Annotated[
    Path | None, typer.Option("--from", metavar="RUN", help="Take sizes of episodes and speeds from a finished run.")
]


def plan(
    context: typer.Context,
    file: Config,
    hardware: HardwareName = "cpu",
    cores: Cores = None,
    price: Price = None,
    source: From = None,
    as_json: Json = False,
) -> None:
    """Predict the memory, time and cost of a run's RL iterations, and name the bottleneck. Nothing is started."""
    from turnsmith.recipes.planning.hardware import CPU, find_hardware
    from turnsmith.recipes.planning.prediction import predict

    config, figures = read_configuration(context, file), find_hardware(hardware)
    gpus = max(1, config.trainer.num_ranks)
    num_cores = cores or (len(os.sched_getaffinity(0)) if hardware == CPU else CORES_PER_GPU * gpus)
    planned = predict(config, figures, num_cores, price, source)
    answer(to_json(planned), lambda: print_plan(planned), as_json=as_json)


def to_json(planned: "PlannedRun") -> dict[str, Any]:
    """Return a plan as JSON data."""
    run = planned.plan
    stages = [asdict(stage) | {"seconds": stage.seconds} for stage in run.stages]
    for stage in stages:
        stage["num_fitting"] = None if stage["num_fitting"] == float("inf") else stage["num_fitting"]
    return {
        "stages": stages,
        "hours": run.hours,
        "num_processors": run.num_processors,
        "processor_hours": run.num_processors * run.hours,
        "cost": run.cost,
        "disk_bytes": run.disk_bytes,
        "sync_bytes": run.sync_bytes,
        "peak_bytes_of_a_rank": run.memory.peak,
        "bottleneck": planned.bottleneck,
        "changes": [asdict(change) for change in planned.changes],
        "assumptions": planned.assumptions,
        "calibration_errors": planned.errors,
    }


def print_plan(planned: "PlannedRun") -> None:
    """Print a plan as tables and sentences."""
    console, run = make_console(), planned.plan
    console.print(make_table(["", *(stage.name for stage in run.stages)], [*list_rows(run)]))
    for line in [
        *list_totals(run),
        "",
        f"bottleneck: {planned.bottleneck}",
        *list_changes(planned),
        "",
        *planned.assumptions,
    ]:
        console.print(line, soft_wrap=True)


def list_rows(run: "RunPlan") -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of stages."""
    stages = run.stages
    yield "iterations", *(f"{stage.num_iterations:,}" for stage in stages)
    yield "episodes of an iteration", *(f"{stage.num_episodes:,}" for stage in stages)
    yield "collecting, s", *(f"{stage.collected.seconds:,.0f}" for stage in stages)
    yield "  of it with few episodes left, s", *(f"{stage.collected.tail_s:,.0f}" for stage in stages)
    yield "training, s", *(f"{stage.train_s:,.0f}" for stage in stages)
    yield "new weights to the engine, s", *(f"{stage.sync_s:,.1f}" for stage in stages)
    yield "iteration, s", *(f"{stage.seconds:,.0f}" for stage in stages)
    yield "episodes at once", *(f"{stage.num_wanted:,}" for stage in stages)
    yield "  whose keys and values fit", *(describe_fitting(stage.num_fitting) for stage in stages)
    yield "busy cores, mean", *(f"{stage.collected.mean_cores:,.1f}" for stage in stages)
    yield "tokens of an iteration, millions", *(f"{stage.tokens_collected / 1e6:,.2f}" for stage in stages)
    yield "  trained", *(f"{stage.tokens_trained / 1e6:,.2f}" for stage in stages)


def describe_fitting(number: float) -> str:
    """Describe how many episodes fit into the memory for keys and values."""
    return "all" if number == float("inf") else f"{number:,.0f}"


def list_totals(run: "RunPlan") -> Iterator[str]:
    """Yield sentences about the whole run."""
    spent = (
        ""
        if run.num_processors == 1
        else f" on {run.num_processors} GPUs, {run.num_processors * run.hours:,.0f} GPU hours"
    )
    yield f"all RL iterations: {describe_hours(run.hours)}{spent}"
    if run.cost is not None:
        yield f"cost: {run.cost:,.0f}"
    yield f"memory of a rank: {run.memory.peak / 2**30:,.1f} GiB (parts: turnsmith run --dry-run)"
    yield f"disk: {run.disk_bytes / 1e9:,.1f} GB; new weights: {run.sync_bytes / 1e9:,.1f} GB for each engine copy"


def describe_hours(hours: float) -> str:
    """Describe a duration in hours, or in minutes below one hour."""
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


def list_changes(planned: "PlannedRun") -> Iterator[str]:
    """Yield a sentence about each change that would save time."""
    for change in planned.changes:
        saved = 1 - change.hours / planned.plan.hours
        yield f"- {change.name}: {describe_hours(change.hours)} ({saved:.0%} less)" + (
            "" if change.is_free else ", with more hardware"
        )
