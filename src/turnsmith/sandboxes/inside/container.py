"""The supervisor as process 1 of a container, on an interpreter that was brought along: the image need not have one."""

import socket
import sys
from functools import partial
from pathlib import Path

from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor, telling_why
from turnsmith.sandboxes.inside.toolbox import contained_limits
from turnsmith.sandboxes.inside.warm import serve_until_forked
from turnsmith.sandboxes.inside.wire import Limits

FOLDER = "/.turnsmith"
"""Where a container sees what is ours, read-only."""
PYTHON, TOOLBOX, CONNECTION = f"{FOLDER}/python", f"{FOLDER}/toolbox", f"{FOLDER}/connection"
SOCKET = "socket"
"""Name of the socket on which the host listens; it is gone as soon as we are connected."""


def main() -> None:
    """Arguments: four limits."""
    serve_until_forked(partial(serve, *sys.argv[1:]))


def serve(*numbers: str) -> None:
    """Serve the host until it hangs up. Raises Forked in a child that will be pytest."""
    limits = Limits(*map(int, numbers))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{CONNECTION}/{SOCKET}")
    with telling_why(connection):
        drop_privileges()
        if not Path("/bin/bash").exists():
            raise FileNotFoundError("the image has no /bin/bash")
        Supervisor(connection, limits, contained_limits(limits), TOOLBOX).run()
