"""The supervisor without any isolation: an ordinary process over a copied tree, which it removes at its end."""

import shutil
import signal
import socket
import sys

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.wire import Limits


def main() -> None:
    """Arguments: folder of the sandbox, and four limits; the connection is standard input."""
    folder, *numbers = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.adopt_orphans()
    try:
        Supervisor(socket.socket(fileno=0), Limits(*map(int, numbers)), f"{folder}/toolbox").run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
