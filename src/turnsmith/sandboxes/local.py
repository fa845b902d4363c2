"""Local sandboxes built from Linux namespaces and overlayfs; they need no daemon and no root, and start in milliseconds."""

import asyncio
import errno
import json
import os
import resource
import socket
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.git.layers import Place
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import toolbox, wire
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.process_one import UPPER
from turnsmith.sandboxes.inside.wire import HostPython, StartRequest
from turnsmith.sandboxes.launch import run_inside, wait_or_kill
from turnsmith.sandboxes.runtime import describe_python
from turnsmith.sandboxes.supervised import Parts, SupervisedProvider
from turnsmith.sandboxes.working_tree import WorkingTree

START_TIMEOUT_S = 60.0

_OBSTACLES = {
    ("sys/kernel/apparmor_restrict_unprivileged_userns", "1"): (
        "AppArmor keeps ordinary users from making namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    ("sys/kernel/unprivileged_userns_clone", "0"): (
        "ordinary users may not make user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`"
    ),
    ("sys/user/max_user_namespaces", "0"): (
        "no user namespace may be made: `sysctl -w user.max_user_namespaces=15000`"
    ),
}
"""File below /proc, and its value that forbids local sandboxes → reason and remedy."""
_CONTAINER = (
    "a seccomp profile filters system calls, as in a container: start it with `--security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined`, or `--privileged`"
)
OWN_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/proc")
"""Folders that are private to each sandbox, so that the host's files in them are hidden."""
_KERNEL = "a kernel feature is missing: use Linux 6.6 or newer with user namespaces and overlayfs"


class LocalProvider(SupervisedProvider):
    """Provider of local sandboxes. A spawner process forks them; the provider restarts a spawner that was killed."""

    takes_environments = True

    def __init__(self, config: SandboxConfig) -> None:
        """Start the spawner. Raises UsageError if this machine forbids local sandboxes."""
        super().__init__(config)
        python = describe_python(plugins=config.test_plugins, hidden=config.hidden)
        check_place(python)
        self._settings = {"limits": asdict(self._limits), "python": asdict(python)}
        self._spawner = Spawner(self._settings)
        self.isolation = self._spawner.isolation

    @property
    def spawner_pid(self) -> int:
        """Return the process id of the spawner; a restarted spawner has another id."""
        return self._spawner.pid

    async def _make(self, spec: SandboxSpec, held: ExitStack) -> Parts:
        if self._spawner.was_killed:
            killed, self._spawner = self._spawner, Spawner(self._settings)
            killed.close()
        layers = [str(layer.resolve()) for layer in spec.layers]
        installed = str(spec.environment.resolve()) if spec.environment else ""
        request = StartRequest(layers, spec.workdir, spec.is_for_tests and not installed, installed)
        end, scratch = await self._spawner.fork(request, held)
        tree = WorkingTree(spec.workdir, spec.workdir, spec.layers, Place(scratch, UPPER), is_stacked=True)
        environment = toolbox.environment(root.TOOLBOX, root.RUNTIME, root.HOME)
        if spec.environment:
            environment = toolbox.with_own_python(environment, root.ENVIRONMENT)
        return await Connection.open(end, self._limits.payload_bytes), tree, environment

    async def close(self) -> None:
        """Stop every sandbox, then the spawner."""
        await super().close()
        self._spawner.close()


class Spawner:
    """Handle of the small process that forks sandboxes. That process and its sandboxes end with the host process."""

    def __init__(self, settings: wire.Header) -> None:
        """Start the spawner process. Raises UsageError if this machine forbids local sandboxes."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (most, most)
        )  # descriptors in flight count against the sender's limit
        self._process, self._control = run_inside("local.root", kind=socket.SOCK_SEQPACKET)
        try:
            self._control.send(json.dumps(settings).encode())
            answer = self._control.recv(wire.MAX_REQUEST_BYTES)
        except ConnectionError:
            answer = b""
        greeting = json.loads(answer or b'{"error": "it died"}')
        if "error" in greeting:
            self.close()
            raise UsageError(
                f"this machine does not allow local sandboxes ({greeting['error']}): {name_remedy()}; "
                "or choose --sandbox.kind subprocess, which isolates nothing"
            )
        self.isolation: str = greeting["isolation"]

    async def fork(self, request: StartRequest, held: ExitStack) -> tuple[socket.socket, int]:
        """Fork a sandbox; return its connection, and a file descriptor of the tmpfs with its writes. Raises OSError."""
        ours, theirs = socket.socketpair()
        held.callback(ours.close)  # closing it ends a sandbox that has started
        with theirs:
            socket.send_fds(self._control, [json.dumps(asdict(request)).encode()], [theirs.fileno()])
        async with asyncio.timeout(START_TIMEOUT_S):
            scratch = await receive_scratch(ours)
        held.callback(os.close, scratch)
        return ours, scratch

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def was_killed(self) -> bool:
        """Return True if the spawner process ended before `close` was called."""
        return self._control.fileno() >= 0 and self._process.poll() is not None

    def close(self) -> None:
        """End the spawner process and every sandbox. Can be called twice."""
        self._control.close()
        wait_or_kill(self._process)  # it may still be copying a large layer


async def receive_scratch(connection: socket.socket) -> int:
    """Wait for the first frame of a new sandbox; return the descriptor of the tmpfs that holds its writes. Raises OSError."""
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


def check_place(python: HostPython) -> None:
    """Raise UsageError if the Python interpreter lies in a folder that is hidden in sandboxes."""
    for folder in OWN_FOLDERS:
        if any(Path(path).is_relative_to(folder) for path in (python.prefix, python.program)):
            raise UsageError(
                f"local sandboxes cannot see the Python at {python.prefix}, since {folder} is private to each sandbox: install "
                "Turnsmith with a Python in another folder, or choose --sandbox.kind subprocess, which isolates nothing"
            )


def name_remedy(proc: Path = Path("/proc")) -> str:
    """Name the kernel setting that most likely forbids local sandboxes, and the command that changes it."""
    for (name, forbidding), remedy in _OBSTACLES.items():
        if (proc / name).exists() and (proc / name).read_text().strip() == forbidding:
            return remedy
    return _CONTAINER if "\nSeccomp:\t2" in (proc / "self" / "status").read_text() else _KERNEL
