"""The helper process of a provider: small, single-threaded, it forks a sandbox for each request.

Started by `root`, with a socket of packets as standard input; the first packet holds its settings.
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
from turnsmith.sandboxes.inside.local.process_one import Trees, fork_sandbox
from turnsmith.sandboxes.inside.privileges import compile_filter
from turnsmith.sandboxes.inside.warm import preload, until_forked
from turnsmith.sandboxes.inside.wire import HostPython, Limits, StartRequest


@until_forked
def main() -> None:
    """Fork sandboxes until the host closes the control socket or ends."""
    control = socket.socket(fileno=os.dup(0))
    settings = json.loads(control.recv(wire.MAX_REQUEST_BYTES))
    limits, apart = Limits(**settings["limits"]), root.find_apart(HostPython(**settings["python"]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which will close the socket
    compile_filter()
    layers = Layers(identity := choose_identity())
    control.send(json.dumps({"isolation": "namespaces-root" if identity.is_foreign else "namespaces-user"}).encode())
    while True:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # each fork of a sandbox undoes it
        try:
            message, ends = wire.receive_descriptors(control)
        except ConnectionError:
            return  # the host was killed while it waited for an answer
        if not message:
            return
        for end in ends:  # else there was no room for it, and the host sees its connection hung up
            with socket.socket(fileno=end) as connection:
                _start(StartRequest(**json.loads(message)), connection, layers, limits, identity, apart)


def _start(
    request: StartRequest,
    connection: socket.socket,
    layers: Layers,
    limits: Limits,
    identity: Identity,
    apart: list[str] | None,
) -> None:
    """Fork a sandbox that serves a connection, or report there why not."""
    opened: list[int] = []
    try:
        if request.is_for_tests:
            _warm_up()
        Path(root.ROOT + request.workdir).mkdir(parents=True, exist_ok=True)
        opened.extend(map(layers.open, filter(None, [*request.layers, request.environment])))
        environment = opened[-1] if request.environment else None
        trees = Trees(request.workdir, opened[: len(request.layers)], environment, apart)
        fork_sandbox(connection, trees, limits, identity)
    except OSError as error:
        with suppress(ConnectionError):  # nobody may be there to hear it
            wire.send(connection, {"error": str(error)})
    for tree in opened:  # by us alone: a fork has put them in their places
        os.close(tree)


@cache
def _warm_up() -> None:
    """From now on sandboxes are forked from a process that has imported pytest, or else start it themselves."""
    try:
        preload(root.RUNTIME)
    except Exception as error:
        print(f"turnsmith: tests will start cold: {type(error).__name__}: {error}", file=sys.stderr)
