"""Supervisor as process 1 of a container, on a mounted interpreter."""

import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor, telling_why
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import until_forked
from turnsmith.sandboxes.inside.wire import Limits

FOLDER = "/.turnsmith"
"""Mount point of Turnsmith's read-only files in a container."""
PYTHON, TOOLBOX, CONNECTION = f"{FOLDER}/python", f"{FOLDER}/toolbox", f"{FOLDER}/connection"
SOCKET = "socket"
"""Name of the host's listening socket; removed after the connection."""


@until_forked
def main() -> None:
    """Serve the host until it disconnects. Arguments: four limits."""
    limits = Limits(*map(int, sys.argv[1:]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{CONNECTION}/{SOCKET}")
    with telling_why(connection):
        drop_privileges()
        if not Path("/bin/bash").exists():
            raise FileNotFoundError("the image has no /bin/bash")
        Supervisor(connection, limits, resource_limits(limits), TOOLBOX).run()
