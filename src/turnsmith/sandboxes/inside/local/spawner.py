"""The helper process of a provider: small, single-threaded, it forks a sandbox for each request.

Started by the builder, with a socket of packets as standard input; the first packet holds its settings.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import Identity, choose_identity, open_ownership_map
from turnsmith.sandboxes.inside.local.layer_copies import LayerCopies
from turnsmith.sandboxes.inside.local.process_one import fork_sandbox, hand_over
from turnsmith.sandboxes.inside.seccomp import compile_filter
from turnsmith.sandboxes.inside.warm import preload, serve_until_forked
from turnsmith.sandboxes.inside.wire import Limits, StartRequest

NUM_WAITING = 2
"""So many sandboxes are kept ready: a fork needs one for the child and one for the parent."""


@dataclass
class Spawner:
    """Forks sandboxes until the host closes the control socket or ends."""

    control: socket.socket
    limits: Limits
    identity: Identity
    copies: LayerCopies
    """Of the layers that cannot be shown as ours."""
    ownership_maps: dict[tuple[int, int], int] = field(default_factory=dict)
    """From owner of a layer to the user namespace that shows it as ours."""
    is_warm: bool = False
    waiting: list[socket.socket] = field(default_factory=list)
    """Sandboxes that wait for an order, the oldest first."""

    def serve(self, host: int) -> None:
        """Loop; `host` is a descriptor that becomes readable when the host process is gone."""
        can_prepare = True
        while True:
            kernel.prctl(
                kernel.PR_SET_PDEATHSIG, signal.SIGKILL
            )  # also from amid long work; each fork of a sandbox undoes it
            is_idle = not can_prepare or len(self.waiting) == NUM_WAITING
            ready, _, _ = select.select([self.control.fileno(), host], [], [], None if is_idle else 0)
            if not ready:
                can_prepare = self._prepare()
                continue
            can_prepare = True
            if host in ready:
                return
            try:
                message, ends = wire.receive_descriptors(self.control)
            except ConnectionError:
                return  # the host was killed while it waited for an answer
            if not message:
                return
            for end in ends:  # else there was no room for it, and the host sees its connection hung up
                with socket.socket(fileno=end) as connection:
                    self._start(StartRequest(**json.loads(message)), connection)

    def _start(self, request: StartRequest, connection: socket.socket) -> None:
        """Hand a sandbox over, or report on its connection why not."""
        layers: list[int] = []
        try:
            if request.is_for_tests:
                self._warm_up()
            Path(root.ROOT + request.workdir).mkdir(parents=True, exist_ok=True)
            layers.extend(self._open_layer(path) for path in request.layers)
            sandbox = self.waiting.pop(0) if self.waiting else fork_sandbox(self.limits, self.identity)
            hand_over(sandbox, request.workdir, connection, layers)
        except OSError as error:
            with suppress(ConnectionError):  # nobody may be there to hear it
                wire.send(connection, {"error": str(error)})
        for tree in layers:
            os.close(tree)

    def _warm_up(self) -> None:
        """From now on sandboxes are forked from a process that has imported pytest, or else start it themselves."""
        if not self.is_warm:
            self.is_warm = True
            try:
                preload(root.RUNTIME)
            except Exception as error:
                print(f"turnsmith: tests will start cold: {type(error).__name__}: {error}", file=sys.stderr)
            while self.waiting:
                self.waiting.pop().close()  # which ends it

    def _prepare(self) -> bool:
        """While nobody asks for one, make a sandbox but for its files; says whether it could: who asks will hear why not."""
        try:
            self.waiting.append(fork_sandbox(self.limits, self.identity))
        except OSError:
            return False
        return True

    def _open_layer(self, path: str) -> int:
        """A layer as a detached read-only mount, its files shown as the sandbox user's own."""
        source = root.HOST + path
        if not self.identity.is_foreign:
            return self._clone(source)
        if source not in self.copies:
            try:
                return self._clone(source, kernel.MOUNT_ATTR_IDMAP, self._ownership_map(source))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        return self._clone(self.copies.find(source))  # a file system that cannot, such as a container's own

    def _clone(self, source: str, attributes: int = 0, ownership_map: int = 0) -> int:
        tree = kernel.clone_tree(source)
        try:
            kernel.set_mount_attributes(tree, root.SAFE | attributes, ownership_map)
        except OSError:
            os.close(tree)
            raise
        return tree

    def _ownership_map(self, path: str) -> int:
        owner = Path(path).stat()
        key = owner.st_uid, owner.st_gid
        if key not in self.ownership_maps:
            self.ownership_maps[key] = open_ownership_map(*key, self.identity)
        return self.ownership_maps[key]


def main() -> None:
    """Serve; a process that was forked to run tests goes on as pytest."""
    serve_until_forked(serve)


def serve() -> None:
    """Say that we are ready, then serve. Raises Forked in a process that will be pytest."""
    control = socket.socket(fileno=os.dup(0))
    limits = Limits(**json.loads(control.recv(wire.MAX_REQUEST_BYTES))["limits"])
    host = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which will close the socket
    compile_filter()
    identity = choose_identity()
    control.send(json.dumps({"isolation": "namespaces-root" if identity.is_foreign else "namespaces-user"}).encode())
    Spawner(control, limits, identity, LayerCopies(Path(root.COPIES), identity)).serve(host)
