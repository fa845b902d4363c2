"""Command line: one module for each group of commands.

`make_app` assembles the commands, and `main` runs them. A command parses its options, calls one function and prints. Torch
and recipes are imported inside the command functions, so that `--help` is fast. A user error becomes one sentence and exit
code 2. No other package imports this one.
"""

import logging
import warnings
from typing import Annotated

import typer

from turnsmith import __version__
from turnsmith.cli import (
    curating,
    demonstrating,
    grading,
    importing,
    models,
    planning,
    redteam,
    reporting,
    results,
    reviews,
    running,
    showing,
    solving,
    viewing,
)
from turnsmith.cli.doctor import doctor
from turnsmith.cli.errors import ErrorReportingGroup
from turnsmith.cli.images import show_images
from turnsmith.cli.making import make
from turnsmith.cli.mining import mine, rebuild
from turnsmith.cli.qualifying import qualify
from turnsmith.cli.tasks import check, stats
from turnsmith.ui import interruption
from turnsmith.ui.terminal import printing

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
HINT = "Configuration keys can follow CONFIG as options, e.g. --seed 7 or --stages.0.iterations 3."
TASKS = """Create, import, check, select and export tasks."""
MORE = """Configuration keys can follow RUN as options, e.g. --stages.1.iterations 8 to extend the run. Finished work is not
repeated."""


def main() -> None:
    """Run the command line; treat SIGTERM as Ctrl-C."""
    interruption.listen()
    warnings.showwarning = show_warning  # type: ignore[assignment]
    hide_notes_of_torchao()
    with interruption.ending_quickly(), printing():
        make_app()()


def hide_notes_of_torchao() -> None:
    """Hide notes that torch logs while torchao, which transformers imports if it is installed, registers its types."""
    logging.getLogger("torch.utils._pytree").addFilter(lambda record: "register_constant" not in record.getMessage())


def show_warning(message: Warning | str, *place: object) -> None:
    """Print a warning, such as for a deprecated key, as one line without its source location."""
    typer.echo(f"warning: {message}", err=True)


def make_app() -> typer.Typer:
    """Assemble all commands, in the order in which users need them."""
    app = typer.Typer(
        cls=ErrorReportingGroup,
        callback=describe,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for name, (text, _) in running.LEARNING.items():
        app.command(name, help=text, context_settings=OVERRIDES, epilog=HINT)(
            running.evaluate if name == "eval" else running.learn_or_evaluate
        )
    app.command("plan", context_settings=OVERRIDES, epilog=HINT)(planning.plan)
    app.command("resume", context_settings=OVERRIDES, epilog=MORE)(running.resume)
    app.command("solve", context_settings=OVERRIDES, epilog=solving.HINT)(solving.solve)
    tasks = typer.Typer(help=TASKS, no_args_is_help=True, rich_markup_mode=None)
    for command in (mine, rebuild, make, qualify, stats):
        tasks.command(command.__name__)(command)
    tasks.command("check", hidden=True, add_help_option=False, context_settings=OVERRIDES)(check)
    tasks.command("demonstrate", context_settings=OVERRIDES, epilog=demonstrating.HINT)(demonstrating.demonstrate)
    tasks.command("images")(show_images)
    for name, added in {**importing.COMMANDS, **curating.COMMANDS}.items():
        tasks.command(name)(added)
    app.add_typer(tasks, name="tasks")
    published = typer.Typer(help=models.HELP, no_args_is_help=True, rich_markup_mode=None)
    published.command("get")(models.get)
    app.add_typer(published, name="models")
    app.command("grade")(grading.grade)
    app.command("redteam")(redteam.redteam)
    app.command("show")(showing.show)
    app.command("view")(viewing.view)
    app.command("report")(reporting.report)
    app.command("results")(results.show_results)
    app.command("compare", epilog=results.ADDRESS)(results.compare)
    for check_or_export in (reviews.audit, reviews.export, reviews.mismatch, reviews.provenance, doctor):
        app.command(check_or_export.__name__)(check_or_export)
    return app


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turnsmith {__version__}")
        raise typer.Exit()


Version = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
]


def describe(version: Version = False) -> None:
    """Train software-engineering agents by reinforcement learning."""
