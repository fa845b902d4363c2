"""`view`: show runs in a browser or a terminal."""

import os
import secrets
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import work_in_sandboxes
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.recipes.results import read_config
from turnsmith.runs.folder import RunFolder
from turnsmith.types import Trajectory

if TYPE_CHECKING:
    from turnsmith.ui.view.continuing import ContinuationOrder

Place = Annotated[Path, typer.Argument(metavar="RUN|DIR", help="Run folder, or a folder of run folders.")]
Port = Annotated[
    int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port on this machine; 0 chooses a free one.")
]
Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; other machines need --token, too.")
]
Token = Annotated[
    bool,
    typer.Option("--token", help="Generate a token, and answer only browsers that open the printed address with it."),
]
Terminal = Annotated[
    bool, typer.Option("--terminal", help="Show the pages in this terminal, e.g. over ssh, without a browser.")
]
LOOPBACK = "127.0.0.1"
NICENESS = 10
"""Increase of the server's niceness, so that a run on the same machine has priority."""


def view(
    place: Place, port: Port = 8321, host: Host = LOOPBACK, token: Token = False, terminal: Terminal = False
) -> None:
    """Show a run, or the runs in a folder, in a browser, until Ctrl-C. Running runs can be watched."""
    if terminal:
        show_in_terminal(place)
    else:
        serve(place, port, host, token=token)


def show_in_terminal(place: Path) -> None:
    """Show runs in this terminal until q is pressed. Raises UsageError if input or output is not a terminal."""
    require("textual", subject="view --terminal")
    from turnsmith.ui.terminal_pages import TerminalPages
    from turnsmith.ui.view.opened import find_runs

    pages = TerminalPages(find_runs(place))
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("--terminal needs a terminal: leave it out, or do not redirect input and output")
    pages.run()


def serve(place: Path, port: int, host: str, *, token: bool) -> None:
    """Serve the pages of runs to browsers until Ctrl-C. Raises UsageError."""
    require("starlette", "uvicorn", "matplotlib", subject="view")
    from uvicorn import Config, Server

    from turnsmith.ui.view.opened import find_runs
    from turnsmith.ui.view.server import make_server

    if host != LOOPBACK and not token:
        raise UsageError(f"--host {host} opens the pages to other machines: add --token, or forward the port with ssh")
    secret = secrets.token_urlsafe(32) if token else ""
    application = make_server(find_runs(place), continue_run, secret)
    with listen(port, host) as listener:
        query = f"?token={secret}" if secret else ""
        typer.echo(f"{place} is shown at http://{host}:{listener.getsockname()[1]}/{query} until Ctrl-C")
        os.nice(NICENESS)
        Server(Config(application, log_level="warning")).run(sockets=[listener])


def continue_run(folder: RunFolder, trajectory: Trajectory, order: "ContinuationOrder") -> Trajectory:
    """Continue an episode in a new sandbox, and grade it. Raises TurnsmithError."""
    from turnsmith.recipes.continuation import ContinuationRequest, continue_episode

    if order.by_policy:
        require("torch", "transformers", subject="continuing with the policy")
    request = ContinuationRequest(trajectory, order.journal, order.turn - 1, order.messages, order.by_policy)
    config = read_config(folder)
    return work_in_sandboxes(config.sandbox, partial(continue_episode, config, folder, request))


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Open a port, by default for connections from this machine only. Raises UsageError if that is impossible."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise UsageError(
            f"cannot use port {port} of {host} ({error.strerror}): give another --port, or 0 for a free one"
        ) from None
