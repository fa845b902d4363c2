"""The supervisor without any isolation: an ordinary process over a copied tree."""

import os
import signal
import socket
import sys
from functools import partial

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import serve_until_forked
from turnsmith.sandboxes.inside.wire import Limits


def main() -> None:
    """Arguments: folder of the sandbox, and four limits; the connection is standard input."""
    serve_until_forked(partial(serve, *sys.argv[1:]))


def serve(folder: str, *numbers: str) -> None:
    """Serve one sandbox. Raises Forked in a child that will be pytest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    limits = Limits(*map(int, numbers))
    connection = socket.socket(fileno=os.dup(0))
    try:
        Supervisor(connection, limits, resource_limits(limits, is_contained=False), f"{folder}/toolbox").run()
    except Exception as error:
        wire.send(connection, {"error": f"{type(error).__name__}: {error}"})
