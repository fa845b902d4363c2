"""Command line: one module for each group of commands. A mistake of the user becomes one sentence and exit code 2.

`make_app` assembles the commands, and `main` runs them. A command that needs torch or recipes imports them itself, so
that `--help` is instant. No other part imports this package. A command parses, calls one function and prints.
"""

import warnings
from typing import Annotated

import typer

from turnsmith import __version__
from turnsmith.cli import curating, exporting, grading, importing, looking, redteam, running, showing, solving
from turnsmith.cli.images import show_images
from turnsmith.cli.making import make
from turnsmith.cli.mining import mine
from turnsmith.cli.mismatching import mismatch
from turnsmith.cli.qualifying import qualify
from turnsmith.cli.rebuilding import rebuild
from turnsmith.cli.sentences import Sentences
from turnsmith.cli.tasks import check, stats
from turnsmith.cli.tracing import provenance
from turnsmith.ui import interruption
from turnsmith.ui.terminal import printing

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
HINT = "Any key of the configuration may follow CONFIG, as in --seed 7 or --stages.0.iterations 3."
TASKS = """Tasks: mine, make or import them, check and qualify them, choose among them, export them.

Mined, made or rebuilt from repositories; imported from public sets and exported to them; filtered, split, merged,
decontaminated and scored."""
MORE = "What extends a run may follow RUN, as in --stages.1.iterations 8; what is done is not done again."


def main() -> None:
    """Run the command line; treat SIGTERM as Ctrl-C."""
    interruption.listen()
    warnings.showwarning = show_warning  # type: ignore[assignment]
    with interruption.ending_quickly(), printing():
        make_app()()


def show_warning(message: Warning | str, *place: object) -> None:
    """Print a warning, such as that of a deprecated key, as one line without its place in the code."""
    typer.echo(f"warning: {message}", err=True)


def make_app() -> typer.Typer:
    """All commands, in the order in which a person meets them."""
    app = typer.Typer(
        cls=Sentences,
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
    app.command("resume", context_settings=OVERRIDES, epilog=MORE)(running.resume)
    app.command("solve", context_settings=OVERRIDES, epilog=solving.HINT)(solving.solve)
    tasks = typer.Typer(help=TASKS, no_args_is_help=True, rich_markup_mode=None)
    for command in (mine, rebuild, make, check, qualify, stats):
        tasks.command(command.__name__)(command)
    tasks.command("images")(show_images)
    for name, added in {**importing.COMMANDS, **curating.COMMANDS}.items():
        tasks.command(name)(added)
    app.add_typer(tasks, name="tasks")
    app.command("grade")(grading.grade)
    app.command("redteam")(redteam.redteam)
    app.command("show")(showing.show)
    app.command("results")(looking.show_results)
    app.command("compare", epilog=looking.ADDRESS)(looking.compare)
    app.command("audit")(looking.audit)
    app.command("export")(exporting.export)
    app.command("mismatch")(mismatch)
    app.command("provenance")(provenance)
    app.command("doctor")(looking.doctor)
    return app


def print_version(wanted: bool) -> None:
    """The version, and nothing else is done."""
    if wanted:
        typer.echo(f"turnsmith {__version__}")
        raise typer.Exit()


Version = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and stop.")
]


def describe(version: Version = False) -> None:
    """Train software-engineering agents by reinforcement learning."""
