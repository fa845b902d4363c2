"""Commands about task sets: `tasks make`, `tasks check`, `tasks qualify`, `tasks stats`."""

import typer

from turnsmith.cli.tasks.files import check, stats
from turnsmith.cli.tasks.making import make
from turnsmith.cli.tasks.qualifying import qualify


def make_tasks_app() -> typer.Typer:
    """All of them, in the order in which a person meets them."""
    app = typer.Typer(help="Make, check, qualify and count tasks.", no_args_is_help=True, rich_markup_mode=None)
    for command in (make, check, qualify, stats):
        app.command(command.__name__)(command)
    return app
