"""A sandbox that a supervisor serves, as the host sees it; the same for every kind on this machine."""

import asyncio
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header
from turnsmith.sandboxes.layers import compare
from turnsmith.sandboxes.patch import format_patch
from turnsmith.types import ExecResult

GRACE_S = 30.0
"""How much longer than its own limit a request may take before the sandbox counts as dead."""

_WORDS = {errno.EFBIG: f"larger than the {MAX_FILE_BYTES >> 20} MB that a sandbox reads and writes at once"}


@dataclass(frozen=True)
class Workspace:
    """Where the working tree is, and how to compare it."""

    workdir: str
    """Path by which callers name it."""
    place: str
    """Path at which the supervisor finds it."""
    layers: tuple[Path, ...]
    """What the working tree was made of, lowest first."""
    written: int
    """Descriptor of the directory that holds what was written since."""
    is_stacked: bool
    """True where `written` lies over the layers; False where it is the whole tree."""

    async def diff(self) -> str:
        """Patch of the tree against its layers, taken from outside. Raises SandboxError."""
        try:
            written = os.dup(self.written)  # a stop meanwhile must not pull it away, nor put another in its place
            return await asyncio.to_thread(self._take_diff, written)
        except OSError as error:
            raise SandboxError(f"cannot take a diff: {error}") from None

    def _take_diff(self, written: int) -> str:
        try:
            return format_patch(compare(self.layers, written, stacked=self.is_stacked))
        finally:
            os.close(written)

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""
        whole = PurePosixPath(self.workdir, path)
        if whole.is_relative_to(self.workdir):
            return str(self.place / whole.relative_to(self.workdir))
        return str(whole)

    def show(self, path: str) -> str:
        """The way back."""
        whole = PurePosixPath(path)
        if whole.is_relative_to(self.place):
            return str(self.workdir / whole.relative_to(self.place))
        return path


class SupervisedSandbox:
    """Implements `Sandbox` over a connection."""

    def __init__(
        self, isolation: str, connection: Connection, workspace: Workspace, environment: dict[str, str]
    ) -> None:
        self.isolation = isolation
        self._connection = connection
        self._workspace = workspace
        self._environment = environment
        self.is_stopped = False

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        cwd: str | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run `bash -c command`. What it leaves in the background lives on until a timeout, the memory limit or `stop`."""
        request = {
            "op": "exec",
            "command": command,
            "cwd": self._workspace.locate(cwd or "."),
            "timeout_s": timeout_s,
            "env": {**self._environment, **(env or {})},
        }
        return await self._run(request, stdin)

    async def run_pytest(
        self,
        arguments: Sequence[str],
        *,
        plugin: str,
        timeout_s: float,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run `python -m pytest`, forked where this sandbox is for tests."""
        request = {
            "op": "pytest",
            "arguments": list(arguments),
            "plugin": plugin,
            "cwd": self._workspace.locate("."),
            "timeout_s": timeout_s,
            "env": {**self._environment, **(env or {})},
        }
        return await self._run(request, stdin)

    async def _run(self, request: Header, stdin: bytes) -> ExecResult:
        answer, output = await self._connection.request(request, stdin, patience_s=request["timeout_s"] + GRACE_S)
        return ExecResult(
            exit_code=answer["exit_code"],
            output=output,
            duration_s=answer["duration_s"],
            timed_out=answer["timed_out"],
            truncated=answer["truncated"],
            cwd=self._workspace.show(answer["cwd"]),
        )

    async def read(self, path: str) -> bytes:
        """Content of a file as the sandbox sees it; OSError (EFBIG) above 64 MB."""
        return await self._access("read", path)

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the sandbox's own user, making parent directories; OSError (EFBIG) above 64 MB."""
        if len(content) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, _WORDS[errno.EFBIG], path)
        await self._access("write", path, content)

    async def _access(self, operation: str, path: str, content: bytes = b"") -> bytes:
        request = {"op": operation, "path": self._workspace.locate(path)}
        answer, payload = await self._connection.request(request, content, patience_s=GRACE_S)
        if number := answer["errno"]:
            raise OSError(number, _WORDS.get(number, os.strerror(number)), path)
        return payload

    async def diff(self) -> str:
        """Patch of the working tree, also of a sandbox that has died."""
        if self.is_stopped:
            raise SandboxError("the sandbox was stopped")
        return await self._workspace.diff()

    async def stop(self) -> None:
        """Have the supervisor end everyone; a dead one has done so already. Safe to call twice."""
        if self.is_stopped:
            return
        self.is_stopped = True
        try:
            await self._connection.request({"op": "stop"}, patience_s=GRACE_S)
        except SandboxError:
            pass  # dead already: there is nothing left to stop
        finally:
            self._connection.close("the sandbox was stopped")
            os.close(self._workspace.written)
