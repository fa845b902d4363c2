"""`view`: show runs in a browser."""

import errno
import socket
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


def view(place: Place, port: Port = 8321) -> None:
    """Show a run, or the runs in a folder, in a browser on this machine, until Ctrl-C. Running runs can be watched."""
    require("starlette", "uvicorn", "matplotlib", subject="view")
    from uvicorn import Config, Server

    from turnsmith.ui.view.opened import find_runs
    from turnsmith.ui.view.server import make_server

    application = make_server(find_runs(place), continue_run)
    with listen(port) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        typer.echo(f"{place} is shown at {address} until Ctrl-C")
        Server(Config(application, log_level="warning")).run(sockets=[listener])


def continue_run(folder: RunFolder, trajectory: Trajectory, order: "ContinuationOrder") -> Trajectory:
    """Continue an episode in a new sandbox, and grade it. Raises TurnsmithError."""
    from turnsmith.recipes.continuation import ContinuationRequest, continue_episode

    if order.by_policy:
        require("torch", "transformers", subject="continuing with the policy")
    request = ContinuationRequest(trajectory, order.journal, order.turn - 1, order.messages, order.by_policy)
    config = read_config(folder)
    return work_in_sandboxes(config.sandbox, partial(continue_episode, config, folder, request))


def listen(port: int) -> socket.socket:
    """Open a port for connections from this machine only. Raises UsageError if it is in use."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UsageError(
            f"cannot use port {port} ({error.strerror}): give another --port, or 0 for a free one"
        ) from None
