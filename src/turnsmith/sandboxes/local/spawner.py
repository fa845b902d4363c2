"""The host's end of the spawner, which starts sandboxes."""

import asyncio
import errno
import json
import os
import socket
from contextlib import ExitStack
from dataclasses import asdict

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.wire import StartRequest
from turnsmith.sandboxes.launch import allow_open_files, run_inside, to_limits, wait_or_kill
from turnsmith.sandboxes.local.remedies import name_remedy
from turnsmith.sandboxes.runtime import describe_python

START_TIMEOUT_S = 60.0


class SpawnerProcess:
    """A small process that forks each sandbox; it and they die with this process."""

    def __init__(self, config: SandboxConfig) -> None:
        """Start it. Raises UsageError where this machine forbids what it needs."""
        allow_open_files()
        self.limits = to_limits(config)
        self._was_killed = False
        python = describe_python(plugins=config.test_plugins, hidden=config.hidden)
        settings = {"limits": asdict(self.limits), "python": asdict(python)}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = run_inside("local.builder", theirs.fileno())
        greeting = self._greet(settings)
        if "error" in greeting:
            self.close()
            raise UsageError(
                f"this machine does not allow local sandboxes ({greeting['error']}): {name_remedy()}; "
                "or choose --sandbox.kind subprocess, which isolates nothing"
            )
        self.isolation: str = greeting["isolation"]

    def _greet(self, settings: wire.Header) -> wire.Header:
        try:
            self._control.send(json.dumps(settings).encode())
            answer = self._control.recv(wire.MAX_REQUEST_BYTES)
        except ConnectionError:
            answer = b""
        greeting: wire.Header = json.loads(answer or b'{"error": "it died"}')
        return greeting

    async def fork(self, request: StartRequest) -> tuple[Connection, int]:
        """A new sandbox: its connection, and its scratch space as a detached mount. Raises OSError."""
        with ExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)  # which ends what may have started
            with theirs:
                socket.send_fds(self._control, [json.dumps(asdict(request)).encode()], [theirs.fileno()])
            scratch = await asyncio.wait_for(receive_scratch(ours), START_TIMEOUT_S)
            undo.callback(os.close, scratch)
            connection = await Connection.open(ours, self.limits.payload_bytes)
            undo.pop_all()
        return connection, scratch

    @property
    def was_killed(self) -> bool:
        """Has it ended though nobody had closed it?"""
        return self._was_killed or (self._control.fileno() >= 0 and self._process.poll() is not None)

    def close(self) -> None:
        """End it, and with it every sandbox. Safe to call twice."""
        self._was_killed = self.was_killed
        self._control.close()
        wait_or_kill(self._process)  # it may be busy with a large layer that nobody waits for any longer


async def receive_scratch(connection: socket.socket) -> int:
    """Wait for a new sandbox's first frame; returns its scratch space as a descriptor. Raises OSError."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(connection, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(connection)
    frame, scratch = wire.receive_descriptors(connection)
    if not frame:
        raise ConnectionResetError("the spawner hung up")
    header = json.loads(frame[wire.PREFIX.size :])
    if "error" in header:
        raise OSError(header["error"])
    if not scratch:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return scratch[0]
