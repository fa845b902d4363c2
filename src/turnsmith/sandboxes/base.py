"""Protocols of sandboxes and their providers. Recipes and tools depend on these alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from turnsmith.types import ExecResult, TaskTree


@dataclass(frozen=True)
class SandboxSpec:
    """Description of a sandbox: layers, working directory, image, environment."""

    layers: tuple[Path, ...]
    """Directories, lowest first, stacked read-only under a temporary writable layer.

    Empty if an image holds the tree.
    """
    workdir: str = "/testbed"
    """Path of the working tree in the sandbox."""
    is_for_tests: bool = False
    """True if `run_pytest` will be called; pytest is then imported in advance."""
    image: str = ""
    """Name or root file system of the image; empty for the provider's default."""
    environment: Path | None = None
    """Python environment mounted read-only at `/environment`, first on PATH; None for Turnsmith's Python."""

    @classmethod
    def of(cls, tree: TaskTree, *, is_for_tests: bool = False) -> "SandboxSpec":
        """Build the specification of a task's sandbox."""
        return cls(tree.layers, tree.task.workdir, is_for_tests, tree.task.image, tree.environment)


@dataclass(frozen=True)
class PytestCommand:
    """Parsed command that starts pytest."""

    arguments: tuple[str, ...]
    program: str = "python"
    """`python` or `python3`, followed by `-m pytest`; or `pytest`."""
    variables: dict[str, str] = field(default_factory=dict)
    search_path: tuple[str, ...] = ()
    """Folders put in front of PYTHONPATH."""


class Sandbox(Protocol):
    """Running sandbox for one rollout or one grading run. All methods raise SandboxError if it has died."""

    isolation: str
    """Isolation tier actually obtained, a value of `Isolation`."""

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        cwd: str | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run a shell command in a new process group; its foreground processes have ended on return.

        The command may write a separate report to descriptor REPORT_FD (251).
        """

    async def run_pytest(
        self, command: PytestCommand, *, plugin: str, timeout_s: float, stdin: bytes = b""
    ) -> ExecResult:
        """Run pytest in the workdir with one extra plugin, given as source code; like `exec`, but without a shell.

        May run in a fork of a process that has already imported pytest and nothing of the tree.
        """

    async def read(self, path: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError, IsADirectoryError or PermissionError.

        A relative path starts at the workdir. Files above 64 MB raise OSError (EFBIG), here and in `write`.
        """

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the sandbox's user, creating parent directories. Raises the same errors as `read`."""

    async def diff(self) -> str:
        """Return the git-style patch of the working tree against its base, computed on the host; new files are included."""

    async def settle(self) -> None:
        """Take the tree as it is now as the base of `diff`, in place of the layers."""

    async def stop(self) -> None:
        """Kill every process and drop the writable layer. Can be called twice."""


class SandboxProvider(Protocol):
    """Factory for sandboxes of one kind on one machine. Closing it stops its sandboxes."""

    isolation: str

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Start a sandbox. Raises SandboxError."""

    async def close(self) -> None: ...


@asynccontextmanager
async def started(provider: SandboxProvider, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    """Start a sandbox and stop it on exit. Raises SandboxError."""
    sandbox = await provider.start(spec)
    try:
        yield sandbox
    finally:
        await sandbox.stop()
