"""The supervisor without any isolation: an ordinary process over a copied tree, which it removes at its end."""

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import Forked, be_pytest
from turnsmith.sandboxes.inside.wire import Limits


def main() -> None:
    """Arguments: folder of the sandbox, and four limits; the connection is standard input."""
    try:
        serve(*sys.argv[1:])
    except Forked as forked:
        child = forked.with_traceback(None)
    else:
        return
    be_pytest(child)


def serve(folder: str, *numbers: str) -> None:
    """Serve one sandbox, and remove it. Raises Forked in a child that will be pytest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.adopt_orphans()
    limits = Limits(*map(int, numbers))
    supervisor = Supervisor(
        socket.socket(fileno=os.dup(0)), limits, resource_limits(limits, is_contained=False), f"{folder}/toolbox"
    )
    try:
        supervisor.run()
    except Exception:
        _remove(Path(folder))
        raise
    _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Remove a tree, whatever it forbids its owner; links are not followed."""
    for path, names, _ in os.walk(folder):
        for below in (Path(path, name) for name in names):
            if not below.is_symlink():
                below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
