"""The supervisor without any isolation: an ordinary process over a copied tree, which it removes at its end."""

import os
import shutil
import signal
import socket
import sys
from functools import partial
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import serve_until_forked
from turnsmith.sandboxes.inside.wire import Limits


def main() -> None:
    """Arguments: folder of the sandbox, and four limits; the connection is standard input."""
    serve_until_forked(partial(serve, *sys.argv[1:]))


def serve(folder: str, *numbers: str) -> None:
    """Serve one sandbox, and remove it. Raises Forked in a child that will be pytest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.adopt_orphans()
    limits = Limits(*map(int, numbers))
    connection = socket.socket(fileno=os.dup(0))
    try:
        Supervisor(connection, limits, resource_limits(limits, is_contained=False), f"{folder}/toolbox").run()
    except Exception as error:
        wire.send(connection, {"error": f"{type(error).__name__}: {error}"})
    _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Remove a tree, whatever it forbids its owner; links are not followed."""
    for path, names, _ in os.walk(folder):
        for below in (Path(path, name) for name in names):
            if not below.is_symlink():
                below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
