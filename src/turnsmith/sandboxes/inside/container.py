"""The supervisor as process 1 of a container, on an interpreter that was brought along: the image need not have one."""

import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor, telling_why
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import until_forked
from turnsmith.sandboxes.inside.wire import Limits

FOLDER = "/.turnsmith"
"""Where a container sees what is ours, read-only."""
PYTHON, TOOLBOX, CONNECTION = f"{FOLDER}/python", f"{FOLDER}/toolbox", f"{FOLDER}/connection"
SOCKET = "socket"
"""Name of the socket on which the host listens; it is gone as soon as we are connected."""


@until_forked
def main() -> None:
    """Serve the host until it hangs up. Arguments: four limits."""
    limits = Limits(*map(int, sys.argv[1:]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{CONNECTION}/{SOCKET}")
    with telling_why(connection):
        drop_privileges()
        if not Path("/bin/bash").exists():
            raise FileNotFoundError("the image has no /bin/bash")
        Supervisor(connection, limits, resource_limits(limits), TOOLBOX).run()
