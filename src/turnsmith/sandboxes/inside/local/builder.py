"""The first half of a provider's helper process: it builds what sandboxes are made of, then goes on as the spawner.

It goes on by running the interpreter anew, from the root. Every fork shows its interpreter's file at /proc/self/exe, and this
one lies on a mount that is read-only: nobody can change it there, be it their own file on the host.
"""

import json
import os
import signal
import socket
import sys
from typing import NoReturn

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import choose_identity, name_user
from turnsmith.sandboxes.inside.toolbox import INTERPRETER, interpreter_arguments
from turnsmith.sandboxes.inside.wire import MAX_REQUEST_BYTES, HostPython, Limits

SPAWNER = "local.spawner"


def main() -> None:
    """Standard input is a socket of packets; the first one holds the settings, which the spawner reads again."""
    with socket.socket(fileno=os.dup(0)) as control:
        settings = json.loads(control.recv(MAX_REQUEST_BYTES, socket.MSG_PEEK))
        limits, python = Limits(**settings["limits"]), HostPython(**settings["python"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which will close the socket
        try:
            _enter_namespaces()
            root.build_root(python, limits)
            root.enter_root()
            _go_on_as_spawner(python.program)
        except OSError as error:
            control.send(json.dumps({"error": str(error)}).encode())


def _enter_namespaces() -> None:
    """An ordinary user has all power in a namespace of his own, and keeps it when a program is run.

    He is not its root: the files of our processes under /proc belong to the root of the namespace, and must not be his.
    """
    identity = choose_identity()
    if identity.is_foreign:
        os.setgroups([])
    else:
        kernel.unshare(kernel.CLONE_NEWUSER)
        name_user(os.getpid(), root.UID, root.UID, identity)
        kernel.keep_capabilities_over_exec()
    root.leave_host_root()


def _go_on_as_spawner(python: str) -> NoReturn:
    os.chdir(root.HOST + sys.path[-1])
    os.execve(python, interpreter_arguments(python, SPAWNER), INTERPRETER)
