"""Commands that learn or evaluate: `run`, `rft`, `rl`, `eval`, and `resume`, which goes on with any of them."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from turnsmith.cli.anchoring import with_absolute_paths
from turnsmith.cli.looking import print_next_look, print_results
from turnsmith.cli.sentences import EXIT_STOPPED, is_disk_full
from turnsmith.config import RunConfig
from turnsmith.config_files import lay_over, load, validate
from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.recipes.extending import extend
from turnsmith.recipes.preflight import find_faults
from turnsmith.runs import RunFolder, claim, locked, read_json, sweep, write_json
from turnsmith.tracking import Progress
from turnsmith.ui.live import watching
from turnsmith.ui.reading import read_outline, read_results
from turnsmith.ui.terminal import make_console

Config = Annotated[str, typer.Argument(metavar="CONFIG", help="TOML file, e.g. configs/laptop.toml.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, print the resolved configuration as JSON, and stop.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="RUN", help="Run folder [default: runs/CONFIG-TIME].")]
Parts = Callable[[RunConfig, str], RunConfig]


def resume(context: typer.Context, run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]) -> None:
    """Go on with a run that was stopped or killed, or give a finished one more to do."""
    folder = RunFolder(run)
    old = with_absolute_paths(validate(read_json(folder.config), folder.config, RunConfig))
    config = with_absolute_paths(lay_over(old.model_dump(mode="json"), context.args, folder.config, RunConfig))
    refuse_faulty(config)
    with locked(folder):
        for key in extend(old, config, folder):
            typer.echo(f"{key} is changed", err=True)
    go(config, folder)


def whole(config: RunConfig, file: str) -> RunConfig:
    """The whole recipe: base, RFT, RL, evaluations.

    Base policy, rejection fine-tuning, the stages of RL; each checkpoint is evaluated.
    """
    if not (config.rft or config.stages or config.eval_tasks):
        raise UsageError(f"{file} asks for nothing: give it an [rft] section, [[stages]] or [eval_tasks.NAME]")
    return config


def only_rft(config: RunConfig, file: str) -> RunConfig:
    """Rejection fine-tuning (RFT) only."""
    if not config.rft:
        raise UsageError(f"{file} has no [rft] section: add one, an empty one takes the paper's numbers")
    return config.model_copy(update={"stages": []})


def only_stages(config: RunConfig, file: str) -> RunConfig:
    """RL only, from the model at model.path."""
    if not config.stages:
        raise UsageError(f"{file} has no [[stages]]: add one, an empty one takes the paper's numbers")
    return config.model_copy(update={"rft": None})


def only_evaluation(config: RunConfig, file: str) -> RunConfig:
    """Evaluation only, of the model at model.path."""
    if not config.eval_tasks:
        raise UsageError(f"{file} has no [eval_tasks.NAME] section: add the tasks to evaluate on")
    return config.model_copy(update={"rft": None, "stages": []})


LEARNING = {"run": whole, "rft": only_rft, "rl": only_stages, "eval": only_evaluation}
"""Commands that take a configuration: what of it they do."""


def make_command(parts: Parts) -> Callable[..., None]:
    """The command that does these parts of a configuration."""

    def command(context: typer.Context, config: Config, dry_run: DryRun = False, out: Out = None) -> None:
        start(context, config, dry_run, out, parts)

    return command


def start(context: typer.Context, file: str, dry_run: bool, out: Path | None, parts: Parts) -> None:
    """Check the configuration, take a run folder for it, go."""
    if file.startswith("-"):
        raise UsageError(f"{file} stands before the configuration: write CONFIG first, then {file}")
    config = parts(load(Path(file), context.args, RunConfig), file)
    if dry_run:
        plan(config)
        return
    config, folder = with_absolute_paths(config), RunFolder(out or name_folder(file))
    refuse_faulty(config)
    is_new = claim(folder, config.model_dump(mode="json"))
    try:
        go(config, folder)
    except UsageError:
        if is_new and folder.is_untouched():
            shutil.rmtree(folder.path)
        raise


def name_folder(file: str) -> Path:
    """`configs/laptop.toml` → `runs/laptop-20260131-235959`."""
    return Path("runs") / f"{Path(file).stem}-{datetime.now():%Y%m%d-%H%M%S}"


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
    try:
        with locked(folder):
            sweep(folder, config.runs.keep_checkpoints)
            with noting_stop(folder), watching(folder.log) as progress:
                learn(config, folder, progress)
            finish(folder)
    except KeyboardInterrupt:
        typer.echo(f"stopped; `turnsmith resume {quote(str(folder.path))}` goes on", err=True)
        raise typer.Exit(EXIT_STOPPED) from None
    except (OSError, BaseExceptionGroup) as error:
        if not is_disk_full(error):
            raise
        raise UsageError(
            f"the disk of {folder.path} is full: make room there, then `turnsmith resume {quote(str(folder.path))}` goes on"
        ) from None


@contextmanager
def noting_stop(folder: RunFolder) -> Iterator[None]:
    """Keep the reason in the folder where a run stops by itself, so that nobody promises that it goes on."""
    folder.stop_reason.unlink(missing_ok=True)
    try:
        yield
    except TurnsmithError as error:
        folder.stop_reason.write_text(f"{error}\n")
        raise


def learn(config: RunConfig, folder: RunFolder, progress: Progress) -> None:
    """Run the recipe to its end."""
    from turnsmith.recipes.whole import run_recipe

    progress.say(f"run folder {folder.path}")
    if config.sandbox.kind == "subprocess":
        progress.say("warning: sandbox.kind is subprocess: agents and tests are not isolated from this machine")
    asyncio.run(run_recipe(config, folder, progress))


def finish(folder: RunFolder) -> None:
    """Write results and curves, print the table and where to look next."""
    from turnsmith.ui.curves import draw_curves

    outline, results = read_outline(folder), read_results(folder)
    write_json(folder.results, results)
    print_results(results, outline)
    console = make_console()
    if outline.trains:
        console.print(f"curves        {draw_curves(folder)}", soft_wrap=True)
    console.print(f"iterations    turnsmith show {quote(str(folder.path))}", soft_wrap=True)
    print_next_look(folder, outline, results)
    console.print(f"results       turnsmith results {quote(str(folder.path))} --json", soft_wrap=True)
