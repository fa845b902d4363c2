"""A sandbox that a supervisor serves, as the host sees it; the same for every kind on this machine."""

import asyncio
import errno
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import Sandbox, Snapshot
from turnsmith.sandboxes.connection import STOPPED, Connection
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header
from turnsmith.types import ExecResult

GRACE_S = 30.0
"""How much longer than its own limit a request may take before the sandbox counts as dead."""

ACCESS_TIMEOUT_S = 10.0
"""Far longer than 64 MB take; but untrusted code can stop whoever reads and writes files, who runs as the same user."""

_WORDS = {errno.EFBIG: f"larger than the {MAX_FILE_BYTES >> 20} MB that a sandbox reads and writes at once"}


class WorkingTree(Protocol):
    """The working tree of a life."""

    async def diff(self) -> str:
        """Patch of the tree against what it was made of, taken from outside. Raises SandboxError."""

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""

    def show(self, path: str) -> str:
        """The way back."""


class Life(Protocol):
    """A sandbox until its files are frozen, restored or thrown away: one supervisor, and the files that it serves."""

    @property
    def connection(self) -> Connection: ...

    @property
    def workspace(self) -> WorkingTree: ...

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every command."""

    async def freeze(self) -> Snapshot:
        """End every process and freeze the files; all that is left to ask of this life is `end`. Raises SandboxError."""

    async def end(self) -> None:
        """End every process and let go of the files; once."""


class Source(Protocol):
    """Where new lives come from: the provider."""

    isolation: str

    async def launch(self, snapshot: Snapshot) -> Life:
        """A life that begins with the files of a snapshot. Raises SandboxError, or ValueError for a snapshot of others."""

    async def start_from(self, snapshot: Snapshot) -> Sandbox:
        """The same, as a sandbox of its own."""


class SupervisedSandbox:
    """Implements `Sandbox` by lives that follow each other: one that is frozen or restored goes on in a new one."""

    def __init__(self, source: Source, life: Life) -> None:
        self.isolation = source.isolation
        self._source = source
        self._life = life
        self._changing = asyncio.Lock()
        """Held while one life gives way to the next."""
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
        request = {
            "op": "exec",
            "has_report": has_report,
            "command": command,
            "timeout_s": timeout_s,
        }
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
        life = await self._living()
        request |= {"cwd": life.workspace.locate(cwd), "env": {**life.environment, **env}}
        answer, written = await life.connection.request(request, stdin, patience_s=request["timeout_s"] + GRACE_S)
        num_output = len(written) - answer["report_bytes"]
        return ExecResult(
            exit_code=answer["exit_code"],
            output=written[:num_output],
            report=written[num_output:],
            duration_s=answer["duration_s"],
            timed_out=answer["timed_out"],
            truncated=answer["truncated"],
            is_warm=answer["is_warm"],
            cwd=life.workspace.show(answer["cwd"]),
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
        life = await self._living()
        request = {"op": operation, "path": life.workspace.locate(path), "timeout_s": ACCESS_TIMEOUT_S}
        answer, payload = await life.connection.request(request, content, patience_s=ACCESS_TIMEOUT_S + GRACE_S)
        if number := answer["errno"]:
            raise OSError(number, _WORDS.get(number, os.strerror(number)), path)
        return payload

    async def diff(self) -> str:
        """Patch of the working tree, also of a sandbox that has died."""
        life = await self._living()
        if self.is_stopped:
            raise SandboxError(STOPPED)
        return await life.workspace.diff()

    async def snapshot(self) -> Snapshot:
        """Freeze all files as they are. A command that still runs is ended, as by a signal."""
        async with self._changing:
            snapshot = await self._life.freeze()
            try:
                await self._go_on(snapshot)
            except BaseException:
                snapshot.drop()
                raise
        return snapshot

    async def restore(self, snapshot: Snapshot) -> None:
        """End every process and go back to the files of a snapshot; where that fails, all is as before."""
        async with self._changing:
            await self._go_on(snapshot)

    async def fork(self, num: int) -> list[Sandbox]:
        """New sandboxes with the files that this one has now; all of them, or none and SandboxError."""
        async with self._changing:
            snapshot = await self._life.freeze()
            try:
                going_on, starting = self._go_on(snapshot), start_all(self._source, snapshot, num)
                failure, forks = await asyncio.gather(going_on, starting, return_exceptions=True)
            finally:
                snapshot.drop()
        if isinstance(forks, BaseException):
            raise forks
        if isinstance(failure, BaseException):
            await stop_all(forks)
            raise failure
        return forks

    async def _go_on(self, snapshot: Snapshot) -> None:
        """Give way to a life with the files of a snapshot."""
        if self.is_stopped:
            raise SandboxError(STOPPED)
        last, self._life = self._life, await self._source.launch(snapshot)
        await last.end()

    async def _living(self) -> Life:
        """The present life, once it is settled which that is."""
        async with self._changing:
            return self._life

    async def stop(self) -> None:
        """End everyone; a dead sandbox has done so already. Safe to call twice."""
        async with self._changing:
            if not self.is_stopped:
                self.is_stopped = True
                await self._life.end()


async def start_all(source: Source, snapshot: Snapshot, num: int) -> list[Sandbox]:
    """So many sandboxes, or none and the first failure."""
    outcomes = await asyncio.gather(*(source.start_from(snapshot) for _ in range(num)), return_exceptions=True)
    started = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            await stop_all(started)
            raise outcome
    return started


async def stop_all(sandboxes: Iterable[Sandbox]) -> None:
    await asyncio.gather(*(sandbox.stop() for sandbox in sandboxes))
