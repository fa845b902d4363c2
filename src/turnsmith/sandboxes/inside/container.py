"""Start of the supervisor as process 1 of a container, by the mounted interpreter."""

import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor, reporting_errors
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import until_forked
from turnsmith.sandboxes.inside.wire import Limits

FOLDER = "/.turnsmith"
"""Mount point of Turnsmith's read-only files in a container."""
PYTHON, TOOLBOX, CONNECTION = f"{FOLDER}/python", f"{FOLDER}/toolbox", f"{FOLDER}/connection"
SOCKET = "socket"
"""File name of the socket on which the host listens; removed once the container has connected."""


@until_forked
def main() -> None:
    """Serve the host until it disconnects. The command-line arguments are the four fields of `Limits`, in order."""
    limits = Limits(*map(int, sys.argv[1:]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{CONNECTION}/{SOCKET}")
    with reporting_errors(connection):
        drop_privileges()
        if not Path("/bin/bash").exists():
            raise FileNotFoundError("the container image has no /bin/bash")
        Supervisor(connection, limits, resource_limits(limits), TOOLBOX).run()
