"""Protocols of sandboxes and of the providers that start sandboxes. Recipes and tools depend only on these protocols."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from turnsmith.config import SandboxConfig
from turnsmith.types import ExecResult, TaskTree


@dataclass(frozen=True)
class SandboxSpec:
    """Description of a sandbox to start: folders of its working tree, workdir, image, Python environment."""

    layers: tuple[Path, ...]
    """Folders that are stacked to make the working tree, lowest first, below a temporary writable folder.

    Empty if the container image holds the working tree.
    """
    workdir: str = "/testbed"
    """Path of the working tree in the sandbox."""
    is_for_tests: bool = False
    """True if `Sandbox.run_pytest` will be called; the sandbox then imports pytest in advance."""
    image: str = ""
    """Name of the container image, or path of a root file system; empty for the provider's default image."""
    environment: Path | None = None
    """Python environment mounted read-only at `/environment`, first on PATH; None for Turnsmith's Python."""

    @classmethod
    def of(cls, tree: TaskTree, *, is_for_tests: bool = False) -> "SandboxSpec":
        """Build the specification of a sandbox for a task: folders of its working tree, workdir, image, environment."""
        return cls(tree.layers, tree.task.workdir, is_for_tests, tree.task.image, tree.environment)


@dataclass(frozen=True)
class PytestCommand:
    """Shell command of a task that starts pytest, in parsed form: program, arguments, environment variables, import path."""

    arguments: tuple[str, ...]
    program: str = "python"
    """Program that starts pytest: `python` or `python3` (as `python -m pytest`), or `pytest`."""
    variables: dict[str, str] = field(default_factory=dict)
    search_path: tuple[str, ...] = ()
    """Folders to put in front of PYTHONPATH in pytest's process."""


class Sandbox(Protocol):
    """Running sandbox for one rollout or one grading run. All methods raise SandboxError if the sandbox has died."""

    isolation: str
    """Isolation level of the sandbox on this machine: one of the names in `types.Isolation`."""

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        cwd: str | None = None,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Run a shell command in a new process group and wait until its foreground processes have ended.

        The command may write a report to file descriptor REPORT_FD (251); the result holds it apart from the output.
        """

    async def run_pytest(
        self, command: PytestCommand, *, plugin: str, timeout_s: float, stdin: bytes = b""
    ) -> ExecResult:
        """Run pytest in the workdir without a shell. `plugin` is the source code of one additional pytest plugin.

        To start faster, pytest may run in a fork of a process that has imported pytest but no module of the working tree.
        """

    async def read(self, path: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError, IsADirectoryError or PermissionError.

        A relative path starts at the workdir. Raises OSError (EFBIG) for a file above 64 MB.
        """

    async def write(self, path: str, content: bytes) -> None:
        """Write a file as the sandbox's user, and create its parent directories. Raises OSError; EFBIG above 64 MB."""

    async def diff(self) -> str:
        """Return changes and new files since the start or the last `settle` as a patch, computed on the host."""

    async def settle(self) -> None:
        """Make the current state of the working tree the base of later calls of `diff`."""

    async def stop(self) -> None:
        """Kill every process of the sandbox and delete the files that it wrote. Can be called twice."""


class SandboxProvider(Protocol):
    """Factory for sandboxes of one kind on one machine. Closing the provider stops its sandboxes."""

    takes_images: ClassVar[bool]
    """True if each sandbox is made from the image that its task names; False if sandboxes show this machine's system files."""
    takes_environments: ClassVar[bool]
    """True if sandboxes can mount a task's Python environment."""
    isolation: str
    """Isolation level of sandboxes on this machine: one of the names in `types.Isolation`."""

    def __init__(self, config: SandboxConfig) -> None:
        """Prepare this machine for sandboxes. Raises UsageError if it does not support this kind of sandbox."""

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
