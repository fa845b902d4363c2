"""The supervisor without any isolation: an ordinary process over a copied tree, which it removes at its end."""

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

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
        _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Remove a tree, whatever it forbids its owner; links are not followed."""
    for path, names, _ in os.walk(folder):
        for below in (Path(path, name) for name in names):
            if not below.is_symlink():
                below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
