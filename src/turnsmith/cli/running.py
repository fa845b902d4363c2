"""`run`, `rft`, `rl`, `eval` and `resume`: commands that train or evaluate."""

import asyncio
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from turnsmith.cli.errors import is_disk_full
from turnsmith.cli.grading import find_numbered, save_predictions
from turnsmith.cli.options import Chosen, Limit, Run
from turnsmith.cli.results import print_results
from turnsmith.cli.showing import print_next_look
from turnsmith.config import RunConfig
from turnsmith.config.files import lay_over, load
from turnsmith.errors import UsageError
from turnsmith.recipes.extension import extend
from turnsmith.recipes.faults import check_names, find_faults
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.recipes.plan import GIB, HardwarePlan, describe_layout, list_parts, plan_hardware
from turnsmith.recipes.policy.base import find_chat_facts
from turnsmith.recipes.results import read_config
from turnsmith.runs.folder import RunFolder, locked
from turnsmith.ui.interruption import announcing
from turnsmith.ui.live import watching
from turnsmith.ui.reading import read_outline
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Config = Annotated[str, typer.Argument(metavar="CONFIG", help="TOML file, e.g. configs/laptop.toml.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check and print the resolved configuration as JSON, and stop.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="RUN", help="Run folder [default: runs/CONFIG-TIME].")]
Predictions = Annotated[
    Path | None, typer.Option("--predictions", metavar="FILE", help="Write the patches as SWE-bench's preds.jsonl.")
]
WHOLE = """Run the whole recipe: base, cold start, RFT, RL and evaluations.

Start from the base policy, apply cold start, rejection fine-tuning and the RL stages, and evaluate each checkpoint."""
LEARNING = {
    "run": (WHOLE, ["cold_start", "rft", "stages", "eval_tasks"]),
    "rft": ("Run rejection fine-tuning (RFT) only.", ["rft"]),
    "rl": ("Run RL only, from the model at model.path.", ["stages"]),
    "eval": ("Evaluate the model at model.path.", ["eval_tasks"]),
}
"""Command that takes a configuration → its help text, and the parts of a configuration of which it needs at least one."""
SECTIONS = {"cold_start": "[cold_start]", "rft": "[rft]", "stages": "[[stages]]", "eval_tasks": "[eval_tasks.NAME]"}
"""Part of a run → heading of its section in a configuration file."""


def resume(context: typer.Context, run: Run) -> None:
    """Resume an interrupted run, or extend a finished one."""
    folder = RunFolder(run)
    if folder.issue.exists():
        raise UsageError(f"{run} is a run of `turnsmith solve`, which cannot be resumed: run that command again")
    old = make_paths_absolute(read_config(folder))
    config = make_paths_absolute(lay_over(old.model_dump(mode="json"), context.args, folder.config, RunConfig))
    refuse_faulty(config)
    with locked(folder):
        for key in extend(old, config, folder):
            typer.echo(f"{key} is changed", err=True)
    go(config, folder)


def learn_or_evaluate(context: typer.Context, file: Config, dry_run: DryRun = False, out: Out = None) -> None:
    """Run a configuration: all its training for `run`, only RFT for `rft`, only the RL stages for `rl`."""
    start(configure(context, file), file, dry_run, out)


def configure(context: typer.Context, file: str) -> RunConfig:
    """Load a configuration, and drop the stages that the command does not run. Raises UsageError."""
    return take_part(read_configuration(context, file), str(context.info_name), file)


def read_configuration(context: typer.Context, file: str) -> RunConfig:
    """Load a configuration with the options that follow it. Raises UsageError."""
    if file.startswith("-"):
        raise UsageError(f"the option {file} precedes the configuration file: write CONFIG first, then {file}")
    config = load(Path(file), context.args, RunConfig)
    check_names(config)
    return config


def start(config: RunConfig, file: str, dry_run: bool, out: Path | None) -> RunFolder | None:
    """Start a run, and return its folder; None after a dry run. Raises UsageError."""
    if dry_run:
        plan(config)
        return None
    folder = RunFolder(out or Path("runs") / f"{Path(file).stem}-{datetime.now():%Y%m%d-%H%M%S}")
    go(config, folder)
    return folder


def evaluate(
    context: typer.Context,
    file: Config,
    limit: Limit = None,
    tasks: Chosen = None,
    dry_run: DryRun = False,
    out: Out = None,
    predictions: Predictions = None,
) -> None:
    """Evaluate the selected tasks, and write predictions if wanted."""
    if predictions and (old := [predictions] * predictions.exists() or find_numbered(predictions)):
        raise UsageError(f"--predictions {predictions}: {old[0]} exists already: give another file, or remove it")
    folder = start(narrow(configure(context, file), tasks or [], limit), file, dry_run, out)
    if predictions and folder:
        model = name_model(read_config(folder))
        for place in save_predictions(folder, model, predictions):
            typer.echo(f"predictions   {place}")


def name_model(config: RunConfig) -> str:
    chat = find_chat_facts(config.engine.kind)
    return chat.name_model(config) if chat else Path(config.model.path).name


def narrow(config: RunConfig, names: list[str], limit: int | None) -> RunConfig:
    """Put the selection of tasks into the configuration, so that `resume` uses the same tasks. Raises UsageError."""
    if not names and limit is None:
        return config
    from turnsmith.recipes.task_sets import narrow_evaluation

    return narrow_evaluation(config, names, limit)


def take_part(config: RunConfig, command: str, file: str) -> RunConfig:
    """Remove from a configuration the training that `command` does not run. Raises UsageError if nothing is left to run."""
    _, wanted = LEARNING[command]
    if not any(getattr(config, part) for part in wanted):
        sections = " or ".join(SECTIONS[part] for part in wanted)
        raise UsageError(
            f"{file} has nothing for `turnsmith {command}` to run: add {sections}; missing keys have defaults"
        )
    nothing: dict[str, Any] = {"cold_start": None, "rft": None, "stages": []}
    return config.model_copy(update={part: empty for part, empty in nothing.items() if part not in wanted})


def plan(config: RunConfig) -> None:
    """Print the resolved configuration, the layout and memory of the ranks, and what this machine lacks for the run."""
    typer.echo(json.dumps(config.model_dump(mode="json"), indent=2))
    if config.training and not find_chat_facts(config.engine.kind):
        show_hardware(config)
    # Several checks report the same missing file.
    faults = "".join(dict.fromkeys(f"; {fault}" for fault in find_faults(config)))
    typer.echo(f"the configuration is valid{', but a run could not start here' if faults else ''}{faults}", err=True)


def show_hardware(config: RunConfig) -> None:
    """Print the layout of ranks and the memory of one rank by part, on standard error; nothing if the model is not here."""
    with suppress(UsageError):  # reported with the other faults
        hardware = plan_hardware(config)
        console = make_console(stderr=True)
        console.print("", describe_layout(hardware), "", hardware_table(hardware), "", sep="\n", soft_wrap=True)


def hardware_table(hardware: HardwarePlan) -> Table:
    rows = ((part, f"{size / GIB:,.2f}") for part, size in list_parts(hardware))
    return make_table(["memory of one rank", "GiB"], rows, num_names=1)


def refuse_faulty(config: RunConfig) -> None:
    """Raise UsageError for the first missing file or program that the configuration names."""
    for fault in find_faults(config):
        raise fault


def go(config: RunConfig, folder: RunFolder) -> None:
    """Start or resume a run, and print its results."""
    from turnsmith.recipes import run_recipe  # takes a second to import

    resume = f"`turnsmith resume {quote(str(folder.path))}`"
    try:
        with announcing(remark=f"resume with {resume}"), watching(folder.log) as progress:
            asyncio.run(run_recipe(config, folder, progress))
    except (OSError, BaseExceptionGroup) as error:
        if not is_disk_full(error):
            raise
        raise UsageError(f"the disk of {folder.path} is full: free some space, then {resume}") from None
    show_end(folder)


def show_end(folder: RunFolder) -> None:
    """Draw the curves of a finished run, print the table of results and commands that show more."""
    name = quote(str(folder.path))
    print_results(folder)
    if read_outline(folder).trains:
        from turnsmith.ui.curves import draw_curves

        typer.echo(f"curves        {draw_curves(folder)}")
    if (events := folder.tracking("tensorboard")).is_dir():
        typer.echo(f"tensorboard   tensorboard --logdir {quote(str(events))}")
    typer.echo(f"iterations    turnsmith show {name}")
    print_next_look(folder)
    typer.echo(f"pages         turnsmith view {name}")
    typer.echo(f"results       turnsmith results {name} --json")
