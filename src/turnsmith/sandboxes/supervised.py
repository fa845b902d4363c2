"""Base classes of sandboxes and providers that send each operation to a supervisor process in the sandbox."""

import asyncio
import errno
import os
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import ClassVar

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, TurnsmithError, UsageError
from turnsmith.git.diff import Change
from turnsmith.sandboxes.base import PytestCommand, SandboxSpec
from turnsmith.sandboxes.connection import STOPPED, Connection
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header, Limits
from turnsmith.sandboxes.working_tree import WorkingTree
from turnsmith.types import ExecResult

MAX_OUTPUT_BYTES = 1_000_000
"""Maximum output of one command, in bytes; the rest is dropped."""

GRACE_S = 30.0
"""Seconds that the host waits beyond a request's time limit before the sandbox counts as dead."""

ACCESS_TIMEOUT_S = 10.0
"""Time limit of `read` and `write`, in seconds, since untrusted code can suspend the process that accesses the file."""

_MESSAGES = {errno.EFBIG: f"larger than the {MAX_FILE_BYTES >> 20} MB that a sandbox reads and writes at once"}


@dataclass(eq=False)
class SupervisedSandbox:
    """Sandbox whose commands and file accesses are requests to a supervisor process inside. Only `diff` runs on the host."""

    isolation: str
    connection: Connection
    tree: WorkingTree
    environment: dict[str, str]
    """Environment variables of every command in the sandbox."""
    resources: AsyncExitStack
    """Processes, folders and mounts that are released when the sandbox stops."""
    is_stopped: bool = False
    settled: list[Change] = field(default_factory=list)
    """Changes of the working tree before the last `settle`, which `diff` leaves out."""
    _in_use: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock held during a diff, so that `stop` does not remove the working tree meanwhile."""

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        cwd: str | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run `bash -c command`. Background processes live until a command times out, memory exceeds its limit, or `stop`."""
        request = {"op": "exec", "command": command, "timeout_s": timeout_s}
        return await self._run(request, cwd or ".", env or {}, stdin)

    async def run_pytest(
        self, command: PytestCommand, *, plugin: str, timeout_s: float, stdin: bytes = b""
    ) -> ExecResult:
        """Run pytest. If the sandbox was started for tests, it runs in a fork of a process that has imported pytest."""
        request = {
            "op": "pytest",
            "program": command.program,
            "search_path": command.search_path,
            "arguments": command.arguments,
            "plugin": plugin,
            "timeout_s": timeout_s,
        }
        return await self._run(request, ".", command.variables, stdin)

    async def _run(self, request: Header, cwd: str, env: dict[str, str], stdin: bytes) -> ExecResult:
        request |= {"cwd": self.tree.locate(cwd), "env": {**self.environment, **env}}
        answer, written = await self.connection.request(request, stdin, patience_s=request["timeout_s"] + GRACE_S)
        num_output = len(written) - answer.pop("report_bytes", 0)
        facts = {**answer, "cwd": self.tree.show(answer["cwd"])}
        del facts["id"]
        return ExecResult(output=written[:num_output], report=written[num_output:], **facts)

    async def read(self, path: str) -> bytes:
        """Return the content of a file. Raises OSError (EFBIG) above 64 MB."""
        return await self._access("read", path)

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the sandbox's user, creating parent directories. Raises OSError (EFBIG) above 64 MB."""
        if len(content) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, _MESSAGES[errno.EFBIG], path)
        await self._access("write", path, content)

    async def _access(self, operation: str, path: str, content: bytes = b"") -> bytes:
        request = {"op": operation, "path": self.tree.locate(path), "timeout_s": ACCESS_TIMEOUT_S}
        answer, payload = await self.connection.request(request, content, patience_s=ACCESS_TIMEOUT_S + GRACE_S)
        if code := answer["exit_code"]:
            number = code if code < 128 else errno.EIO  # killed by a signal
            raise OSError(number, _MESSAGES.get(number, os.strerror(number)), path)
        return payload

    async def diff(self) -> str:
        """Return the patch of the working tree, even if the sandbox has died."""
        async with self._in_use:
            if self.is_stopped:
                raise SandboxError(STOPPED)
            return await self.tree.diff(self.settled)

    async def settle(self) -> None:
        async with self._in_use:
            if self.is_stopped:
                raise SandboxError(STOPPED)
            self.settled = await self.tree.list_changes()

    async def stop(self) -> None:
        """Kill all processes of the sandbox and release its resources. Can be called twice."""
        async with self._in_use:
            if not self.is_stopped:
                self.is_stopped = True
                await self.resources.aclose()


Parts = tuple[Connection, WorkingTree, dict[str, str]]
"""Parts of a new sandbox: connection to the supervisor, working tree, environment variables of commands."""


class SupervisedProvider(ABC):
    """Base class of providers whose sandboxes run a supervisor process; closing a provider stops its sandboxes."""

    isolation: str
    takes_images: ClassVar[bool] = False
    takes_environments: ClassVar[bool] = False

    def __init__(self, config: SandboxConfig) -> None:
        self._limits = Limits(
            memory_bytes=config.memory_mb << 20,
            num_processes=config.max_processes,
            disk_bytes=config.disk_mb << 20,
            output_bytes=MAX_OUTPUT_BYTES,
        )
        self._sandboxes: list[SupervisedSandbox] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """Start a sandbox. Raises SandboxError, or UsageError if the task needs an unsupported image or environment."""
        if not self.takes_images and spec.image:
            raise UsageError(f"a task needs the image {spec.image}: choose --sandbox.kind podman")
        if not self.takes_images and not spec.layers:
            raise UsageError("a task without files needs an image with its working tree: choose --sandbox.kind podman")
        if not self.takes_environments and spec.environment:
            raise UsageError("a task needs its Python environment mounted at /environment: choose --sandbox.kind local")
        async with AsyncExitStack() as resources:
            resources.push_async_callback(asyncio.to_thread, (held := ExitStack()).close)
            try:
                connection, tree, environment = await self._make(spec, held)
            except (OSError, TurnsmithError) as error:
                raise SandboxError(f"the sandbox could not start: {str(error) or 'no answer'}") from None
            resources.push_async_callback(connection.stop, GRACE_S)
            sandbox = SupervisedSandbox(self.isolation, connection, tree, environment, resources.pop_all())
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    @abstractmethod
    async def _make(self, spec: SandboxSpec, held: ExitStack) -> Parts:
        """Create the parts of a sandbox, and register their release in `held`. Raises OSError, TurnsmithError."""

    async def close(self) -> None:
        """Stop every sandbox of this provider and wait until all resources are released."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
