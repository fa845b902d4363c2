"""Sandboxes on this machine by Linux namespaces and overlayfs: no daemon, no root needed, started in milliseconds."""

import asyncio
import errno
import json
import os
import socket
from contextlib import ExitStack
from dataclasses import asdict

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import template, toolbox, wire
from turnsmith.sandboxes.inside.wire import StartRequest
from turnsmith.sandboxes.launch import run_inside, to_limits
from turnsmith.sandboxes.obstacles import name_obstacle
from turnsmith.sandboxes.runtime import describe_machine
from turnsmith.sandboxes.supervised import SupervisedSandbox, Workspace

START_TIMEOUT_S = 60.0
MAX_GREETING_BYTES = 1 << 16


class LocalProvider:
    """Keeps a spawner, a small process that forks each sandbox; it and they die with this process."""

    def __init__(self, config: SandboxConfig) -> None:
        """Start the spawner. Raises UsageError where this machine forbids what it needs."""
        self._limits = to_limits(config)
        settings = {"limits": asdict(self._limits), "machine": asdict(describe_machine())}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._spawner = run_inside("spawner", theirs.fileno())
        self._control.send(json.dumps(settings).encode())
        greeting = json.loads(self._control.recv(MAX_GREETING_BYTES) or b'{"error": "it died"}')
        if "error" in greeting:
            self._end_spawner()
            raise UsageError(
                f"this machine does not allow local sandboxes ({greeting['error']}): {name_obstacle()}; "
                "or choose --sandbox.kind subprocess, which isolates nothing"
            )
        self.isolation: str = greeting["isolation"]
        self._sandboxes: list[SupervisedSandbox] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        try:
            connection, upper = await self._fork(spec)
        except OSError as error:
            raise SandboxError(f"the sandbox could not start: {str(error) or 'no answer'}") from None
        workspace = Workspace(spec.workdir, spec.workdir, spec.layers, upper, is_stacked=True)
        environment = toolbox.environment(template.TOOLBOX, template.RUNTIME, template.HOME)
        sandbox = SupervisedSandbox(self.isolation, connection, workspace, environment)
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def _fork(self, spec: SandboxSpec) -> tuple[Connection, int]:
        """Ask the spawner for a sandbox; returns its connection and its writable layer. Raises OSError."""
        request = StartRequest([str(layer.resolve()) for layer in spec.layers], spec.workdir, spec.is_for_tests)
        with ExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)  # which ends what may have started
            with theirs:
                socket.send_fds(self._control, [json.dumps(asdict(request)).encode()], [theirs.fileno()])
            upper = await asyncio.wait_for(receive_upper(ours), START_TIMEOUT_S)
            undo.callback(os.close, upper)
            connection = await Connection.open(ours, self._limits.payload_bytes)
            undo.pop_all()
        return connection, upper

    async def close(self) -> None:
        """Stop every sandbox, then the spawner."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        self._end_spawner()

    def _end_spawner(self) -> None:
        self._control.close()
        self._spawner.wait()


async def receive_upper(connection: socket.socket) -> int:
    """Wait for a new sandbox's first frame; returns its writable layer as a descriptor. Raises OSError."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(connection, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(connection)
    frame, upper = wire.receive_descriptor(connection, MAX_GREETING_BYTES)
    if not frame:
        raise ConnectionResetError("the spawner hung up")
    header = json.loads(frame[wire.PREFIX.size :])
    if "error" in header:
        raise OSError(header["error"])
    if upper is None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # the kernel drops what finds no free descriptor
    return upper
