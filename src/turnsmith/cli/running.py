"""Commands that learn or evaluate: `run`, `rft`, `rl`, `eval`, and `resume`, which goes on with any of them."""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from turnsmith.cli.grading import find_numbered, save_predictions
from turnsmith.cli.looking import print_results
from turnsmith.cli.options import Chosen, Limit, Run
from turnsmith.cli.sentences import is_disk_full
from turnsmith.cli.showing import print_next_look
from turnsmith.config import RunConfig
from turnsmith.config.files import lay_over, load, validate
from turnsmith.errors import UsageError
from turnsmith.recipes.extension import extend
from turnsmith.recipes.faults import find_faults
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.runs.folder import RunFolder, locked, read_json
from turnsmith.ui.interruption import announcing
from turnsmith.ui.live import watching
from turnsmith.ui.reading import read_outline

Config = Annotated[str, typer.Argument(metavar="CONFIG", help="TOML file, e.g. configs/laptop.toml.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, print the resolved configuration as JSON, and stop.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="RUN", help="Run folder [default: runs/CONFIG-TIME].")]
Predictions = Annotated[
    Path | None, typer.Option("--predictions", metavar="FILE", help="Write the patches as SWE-bench's preds.jsonl.")
]
WHOLE = """The whole recipe: base, RFT, RL, evaluations.

Base policy, rejection fine-tuning, the stages of RL; each checkpoint is evaluated."""
LEARNING = {
    "run": (WHOLE, ["rft", "stages", "eval_tasks"]),
    "rft": ("Rejection fine-tuning (RFT) only.", ["rft"]),
    "rl": ("RL only, from the model at model.path.", ["stages"]),
    "eval": ("Evaluation only, of the model at model.path.", ["eval_tasks"]),
}
"""Commands that take a configuration: what they say of themselves, and the parts that they do."""
SECTIONS = {"rft": "[rft]", "stages": "[[stages]]", "eval_tasks": "[eval_tasks.NAME]"}
"""How a configuration asks for each part."""


def resume(context: typer.Context, run: Run) -> None:
    """Go on with a run that was stopped or killed, or give a finished one more to do."""
    folder = RunFolder(run)
    if folder.issue.exists():
        raise UsageError(f"{run} is of `turnsmith solve`, which does not go on: give that command again")
    old = make_paths_absolute(validate(read_json(folder.config), folder.config, RunConfig))
    config = make_paths_absolute(lay_over(old.model_dump(mode="json"), context.args, folder.config, RunConfig))
    refuse_faulty(config)
    with locked(folder):
        for key in extend(old, config, folder):
            typer.echo(f"{key} is changed", err=True)
    go(config, folder)


def learn_or_evaluate(context: typer.Context, file: Config, dry_run: DryRun = False, out: Out = None) -> None:
    """Do the part of the configuration that is this command's."""
    start(configure(context, file), file, dry_run, out)


def configure(context: typer.Context, file: str) -> RunConfig:
    """The part of a configuration that this command does, checked. Raises UsageError."""
    if file.startswith("-"):
        raise UsageError(f"{file} stands before the configuration: write CONFIG first, then {file}")
    return take_part(load(Path(file), context.args, RunConfig), str(context.info_name), file)


def start(config: RunConfig, file: str, dry_run: bool, out: Path | None) -> RunFolder | None:
    """Take a run folder and go; gives the folder. Raises UsageError."""
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
    """As `learn_or_evaluate`, of the tasks that are wanted; with --predictions patches are written as SWE-bench has them."""
    if predictions and (old := [predictions] * predictions.exists() or find_numbered(predictions)):
        raise UsageError(f"--predictions {predictions}: there is {old[0]} already: name another, or remove it")
    folder = start(narrow(configure(context, file), tasks or [], limit), file, dry_run, out)
    if predictions and folder:
        model = name_model(validate(read_json(folder.config), folder.config, RunConfig))
        for place in save_predictions(folder, model, predictions):
            typer.echo(f"predictions   {place}")


def name_model(config: RunConfig) -> str:
    """What its predictions are filed under."""
    endpoint = config.engine.openai if config.engine.kind == "openai" else None
    return endpoint.model if endpoint else Path(config.model.path).name


def narrow(config: RunConfig, names: list[str], limit: int | None) -> RunConfig:
    """With the choice of tasks as a part of it, so that a resumed run plays the same. Raises UsageError."""
    if not names and limit is None:
        return config
    from turnsmith.recipes.task_sets import narrow_evaluation

    return narrow_evaluation(config, names, limit)


def take_part(config: RunConfig, command: str, file: str) -> RunConfig:
    """What of a configuration a command does. Raises UsageError where there is nothing of it."""
    _, wanted = LEARNING[command]
    if not any(getattr(config, part) for part in wanted):
        sections = " or ".join(SECTIONS[part] for part in wanted)
        raise UsageError(
            f"{file} has nothing that `turnsmith {command}` does: add {sections}; keys left out have defaults"
        )
    nothing: dict[str, Any] = {"rft": None, "stages": []}
    return config.model_copy(update={part: empty for part, empty in nothing.items() if part not in wanted})


def plan(config: RunConfig) -> None:
    """Print the resolved configuration; what this machine lacks for it is a remark, not an error."""
    typer.echo(json.dumps(config.model_dump(mode="json"), indent=2))
    faults = "".join(f"; {fault}" for fault in find_faults(config))
    typer.echo(f"the configuration is valid{', but a run could not begin here' if faults else ''}{faults}", err=True)


def refuse_faulty(config: RunConfig) -> None:
    """Raises UsageError for the first thing that the configuration names and that is not there."""
    for fault in find_faults(config):
        raise fault


def go(config: RunConfig, folder: RunFolder) -> None:
    """Start or resume, and show what came out."""
    from turnsmith.recipes import run_recipe  # takes a second to import

    resume = f"`turnsmith resume {quote(str(folder.path))}`"
    try:
        with announcing(remark=f"resume with {resume}"), watching(folder.log) as progress:
            asyncio.run(run_recipe(config, folder, progress))
    except (OSError, BaseExceptionGroup) as error:
        if not is_disk_full(error):
            raise
        raise UsageError(f"the disk of {folder.path} is full: make room there, then {resume} goes on") from None
    show_end(folder)


def show_end(folder: RunFolder) -> None:
    """Draw the curves, print the table and the next commands."""
    name = quote(str(folder.path))
    print_results(folder)
    if read_outline(folder).trains:
        from turnsmith.ui.curves import draw_curves

        typer.echo(f"curves        {draw_curves(folder)}")
    if (events := folder.tracking("tensorboard")).is_dir():
        typer.echo(f"tensorboard   tensorboard --logdir {quote(str(events))}")
    typer.echo(f"iterations    turnsmith show {name}")
    print_next_look(folder)
    typer.echo(f"results       turnsmith results {name} --json")
