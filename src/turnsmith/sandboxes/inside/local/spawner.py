"""Spawner: a small single-threaded helper process that forks a sandbox for each request.

`root` starts the spawner with a SOCK_SEQPACKET socket as stdin, whose first packet holds the settings.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import Identity, choose_identity
from turnsmith.sandboxes.inside.local.layers import Layers
from turnsmith.sandboxes.inside.local.process_one import Mounts, fork_sandbox
from turnsmith.sandboxes.inside.privileges import compile_filter
from turnsmith.sandboxes.inside.warm import preload, until_forked
from turnsmith.sandboxes.inside.wire import HostPython, Limits, StartRequest


@until_forked
def main() -> None:
    """Fork sandboxes until the host closes the control socket."""
    control = socket.socket(fileno=os.dup(0))
    settings = json.loads(control.recv(wire.MAX_REQUEST_BYTES))
    limits, empty = Limits(**settings["limits"]), root.find_empty_folders(HostPython(**settings["python"]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the host, which closes the socket
    compile_filter()
    layers = Layers(identity := choose_identity())
    control.send(json.dumps({"isolation": "namespaces-root" if identity.is_foreign else "namespaces-user"}).encode())
    while True:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # reset by each fork of a sandbox
        try:
            message, ends = wire.receive_descriptors(control)
        except ConnectionError:
            return  # the host was killed
        if not message:
            return
        for end in ends:  # no descriptor was received: the host sees its connection closed
            with socket.socket(fileno=end) as connection:
                _start(StartRequest(**json.loads(message)), connection, layers, limits, identity, empty)


def _start(
    request: StartRequest,
    connection: socket.socket,
    layers: Layers,
    limits: Limits,
    identity: Identity,
    empty: list[str] | None,
) -> None:
    """Fork a sandbox that answers on `connection`, or send the error there. The folders below /usr in `empty` appear empty."""
    opened: list[int] = []
    try:
        if request.is_for_tests:
            _warm_up()
        Path(root.ROOT + request.workdir).mkdir(parents=True, exist_ok=True)
        opened.extend(map(layers.open, filter(None, [*request.layers, request.environment])))
        environment = opened[-1] if request.environment else None
        mounts = Mounts(request.workdir, opened[: len(request.layers)], environment, empty)
        fork_sandbox(connection, mounts, limits, identity)
    except OSError as error:
        with suppress(ConnectionError):  # the peer may be gone
            wire.send(connection, {"error": str(error)})
    for tree in opened:  # the fork holds its own copies
        os.close(tree)


@cache
def _warm_up() -> None:
    """Import pytest in the spawner, so that pytest starts faster in the sandboxes forked later."""
    try:
        preload(root.RUNTIME)
    except Exception as error:
        print(f"turnsmith: pytest is not preloaded: {type(error).__name__}: {error}", file=sys.stderr)
