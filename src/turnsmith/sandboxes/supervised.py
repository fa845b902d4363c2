"""A sandbox that a supervisor serves, as the host sees it; the same for every kind."""

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.connection import STOPPED, Connection
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header
from turnsmith.sandboxes.working_tree import WorkingTree
from turnsmith.types import ExecResult

GRACE_S = 30.0
"""How much longer than its own limit a request may take before the sandbox counts as dead."""

ACCESS_TIMEOUT_S = 10.0
"""Far longer than 64 MB take; but untrusted code can stop whoever reads and writes files, who runs as the same user."""

_MESSAGES = {errno.EFBIG: f"larger than the {MAX_FILE_BYTES >> 20} MB that a sandbox reads and writes at once"}


class SupervisedSandbox:
    """Implements `Sandbox` by requests to a supervisor, and by the working tree as the host sees it."""

    def __init__(
        self,
        isolation: str,
        connection: Connection,
        tree: WorkingTree,
        environment: dict[str, str],
        resources: AsyncExitStack,
    ) -> None:
        """Take over the connection, and the resources, which are let go of once the sandbox is stopped."""
        self.isolation = isolation
        self._connection = connection
        self._tree = tree
        self._environment = environment
        self._resources = resources
        self._stopping = asyncio.Lock()
        self.is_stopped = False

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        cwd: str | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        has_report: bool = False,
    ) -> ExecResult:
        """Run `bash -c command`. What it leaves in the background lives on until a timeout, the memory limit or `stop`."""
        request = {"op": "exec", "has_report": has_report, "command": command, "timeout_s": timeout_s}
        return await self._run(request, cwd or ".", env or {}, stdin)

    async def run_pytest(
        self,
        arguments: Sequence[str],
        *,
        plugin: str,
        timeout_s: float,
        program: str = "python",
        search_path: Sequence[str] = (),
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run `python -m pytest`, forked where this sandbox is for tests."""
        request = {
            "op": "pytest",
            "program": program,
            "search_path": list(search_path),
            "has_report": True,
            "arguments": list(arguments),
            "plugin": plugin,
            "timeout_s": timeout_s,
        }
        return await self._run(request, ".", env or {}, stdin)

    async def _run(self, request: Header, cwd: str, env: dict[str, str], stdin: bytes) -> ExecResult:
        request |= {"cwd": self._tree.locate(cwd), "env": {**self._environment, **env}}
        answer, written = await self._connection.request(request, stdin, patience_s=request["timeout_s"] + GRACE_S)
        num_output = len(written) - answer.pop("report_bytes", 0)
        facts = {**answer, "cwd": self._tree.show(answer["cwd"])}
        del facts["id"]
        return ExecResult(output=written[:num_output], report=written[num_output:], **facts)

    async def read(self, path: str) -> bytes:
        """Content of a file as the sandbox sees it; OSError (EFBIG) above 64 MB."""
        return await self._access("read", path)

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the sandbox's own user, making parent directories; OSError (EFBIG) above 64 MB."""
        if len(content) > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, _MESSAGES[errno.EFBIG], path)
        await self._access("write", path, content)

    async def _access(self, operation: str, path: str, content: bytes = b"") -> bytes:
        request = {"op": operation, "path": self._tree.locate(path), "timeout_s": ACCESS_TIMEOUT_S}
        answer, payload = await self._connection.request(request, content, patience_s=ACCESS_TIMEOUT_S + GRACE_S)
        if number := answer["errno"]:
            raise OSError(number, _MESSAGES.get(number, os.strerror(number)), path)
        return payload

    async def diff(self) -> str:
        """Patch of the working tree, also of a sandbox that has died."""
        if self.is_stopped:
            raise SandboxError(STOPPED)
        return await self._tree.diff()

    async def stop(self) -> None:
        """End everyone; a dead sandbox has done so already. Safe to call twice."""
        async with self._stopping:
            if not self.is_stopped:
                self.is_stopped = True
                await self._resources.aclose()
