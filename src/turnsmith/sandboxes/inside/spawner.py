"""The helper process of a provider: small, single-threaded, it forks a sandbox for each request.

Started bare, with a socket of packets as standard input; the first packet holds its settings.
"""

import errno
import json
import os
import select
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, template, wire
from turnsmith.sandboxes.inside.box import Box, fork_box
from turnsmith.sandboxes.inside.copies import Copies
from turnsmith.sandboxes.inside.identity import Identity, choose_identity, name_user, open_ownership_map
from turnsmith.sandboxes.inside.warm import Forked, be_pytest, preload
from turnsmith.sandboxes.inside.wire import Limits, Machine, StartRequest

MAX_REQUEST_BYTES = 1 << 16


@dataclass
class Spawner:
    """Forks sandboxes until the host closes the control socket or ends."""

    control: socket.socket
    limits: Limits
    identity: Identity
    copies: Copies
    """Of the layers that cannot be shown as ours."""
    ownership_maps: dict[tuple[int, int], int] = field(default_factory=dict)
    """From owner of a layer to the user namespace that shows it as ours."""
    is_warm: bool = False

    def serve(self, host: int) -> None:
        """Loop; `host` is a descriptor that becomes readable when the host process is gone."""
        while True:
            ready, _, _ = select.select([self.control.fileno(), host], [], [])
            if host in ready:
                return
            try:
                message, end = wire.receive_descriptor(self.control, MAX_REQUEST_BYTES)
            except ConnectionError:
                return  # the host was killed while it waited for an answer
            if not message:
                return
            if end is not None:  # else there was no room for it, and the host sees its connection hung up
                with socket.socket(fileno=end) as connection:
                    self._start(StartRequest(**json.loads(message)), connection)

    def _start(self, request: StartRequest, connection: socket.socket) -> None:
        """Fork the sandbox, or report on its connection why not."""
        layers: list[int] = []
        try:
            if request.is_for_tests:
                self._warm_up()
            self._make_mount_points(request)
            layers.extend(self._open_layer(path) for path in request.layers)
            fork_box(Box(connection, layers, request.workdir, self.limits), self.identity)
        except OSError as error:
            with suppress(ConnectionError):  # nobody may be there to hear it
                wire.send(connection, {"error": str(error)})
        for tree in layers:
            os.close(tree)

    def _warm_up(self) -> None:
        """From now on sandboxes are forked from a process that has imported pytest, or else start it themselves."""
        if not self.is_warm:
            self.is_warm = True
            with suppress(Exception):
                preload(template.RUNTIME)

    def _make_mount_points(self, request: StartRequest) -> None:
        Path(template.ROOT + request.workdir).mkdir(parents=True, exist_ok=True)
        for position in range(len(request.layers)):
            Path(template.LAYERS, str(position)).mkdir(exist_ok=True)

    def _open_layer(self, path: str) -> int:
        """A layer as a detached read-only mount, its files shown as the sandbox user's own."""
        source = template.HOST + path
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
            kernel.set_mount_attributes(tree, template.SAFE | attributes, ownership_map)
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
    """Serve; a process that was forked to run tests comes up here, free of all that served."""
    try:
        serve()
    except Forked as forked:
        child = forked.with_traceback(None)
    else:
        return
    be_pytest(child)


def serve() -> None:
    """Prepare, say so, serve. Raises Forked in a process that will be pytest."""
    control = socket.socket(fileno=os.dup(0))
    settings = json.loads(control.recv(MAX_REQUEST_BYTES))
    limits, machine = Limits(**settings["limits"]), Machine(**settings["machine"])
    host = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which will close the socket
    try:
        identity = choose_identity()
        if identity.is_foreign:
            os.setgroups([])
        else:
            kernel.unshare(kernel.CLONE_NEWUSER)
            name_user(os.getpid(), identity.uid, identity.gid, identity)
        template.leave_host_root()
        template.build_template(machine, limits)
        template.enter_template()
    except OSError as error:
        control.send(json.dumps({"error": str(error)}).encode())
        return
    control.send(json.dumps({"isolation": "namespaces-root" if identity.is_foreign else "namespaces-user"}).encode())
    Spawner(control, limits, identity, Copies(Path(template.COPIES), identity)).serve(host)
