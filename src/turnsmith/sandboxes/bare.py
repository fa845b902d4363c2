"""Sandboxes that isolate nothing: ordinary processes over a copied tree, for machines that forbid namespaces."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import SandboxSpec, Snapshot
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import toolbox
from turnsmith.sandboxes.launch import refuse_image, run_inside, to_limits
from turnsmith.sandboxes.layers import copy_merged
from turnsmith.sandboxes.patience import finish_in_thread
from turnsmith.sandboxes.runtime import describe_machine
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox
from turnsmith.sandboxes.trees import copy_exactly
from turnsmith.sandboxes.workspace import Workspace
from turnsmith.types import Isolation

TREE, HOME = "tree", "home"
"""Folders of a sandbox: all that a snapshot holds. What was written elsewhere on the machine is shared by all."""


class BareProvider:
    """Copies the layers and starts one supervisor per sandbox. Memory is watched; processes and disk are not limited."""

    isolation: str = Isolation.NONE

    def __init__(self, config: SandboxConfig) -> None:
        self._limits = to_limits(config)
        self._machine = describe_machine(plugins=config.test_plugins)
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._sandboxes: list[SupervisedSandbox] = []
        self._snapshots: list[BareSnapshot] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        refuse_image(spec)
        return await self.start_from(BareSnapshot(spec))

    async def start_from(self, snapshot: Snapshot) -> SupervisedSandbox:
        """A sandbox with a copy of a snapshot's files. Raises SandboxError."""
        sandbox = SupervisedSandbox(self, await self.launch(snapshot))
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def launch(self, snapshot: Snapshot) -> "BareLife":
        """A new life with a copy of a snapshot's files. Raises SandboxError."""
        if not isinstance(snapshot, BareSnapshot):
            raise ValueError("a snapshot can be used by the provider of its sandbox only")
        if snapshot.is_dropped:
            raise ValueError("the snapshot was dropped")
        try:
            return await self._launch(snapshot)
        except OSError as error:
            raise SandboxError(f"the sandbox could not start: {error}") from None

    async def _launch(self, snapshot: "BareSnapshot") -> "BareLife":
        """A furnished folder and a supervisor that serves it. Raises OSError."""
        ours, theirs = socket.socketpair()  # first: without free descriptors no folder could be removed again
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)  # which ends the supervisor
            folder = Path(tempfile.mkdtemp(prefix="turnsmith-sandbox-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            async with snapshot.copying:
                await finish_in_thread(lambda: self._furnish(folder, snapshot))
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, opened)
            self._start_supervisor(folder, theirs)
            theirs.close()  # or the supervisor would never see ours close
            connection = await Connection.open(ours, self._limits.payload_bytes)
            undo.pop_all()
        return BareLife(snapshot.spec, folder, opened, connection, self._environment(folder), self._remember)

    def _remember(self, snapshot: "BareSnapshot") -> None:
        self._snapshots = [*(other for other in self._snapshots if not other.is_dropped), snapshot]

    def _start_supervisor(self, folder: Path, end: socket.socket) -> None:
        supervisor = run_inside("plain", end.fileno(), str(folder), *map(str, astuple(self._limits)))
        self._supervisors = [*(other for other in self._supervisors if other.poll() is None), supervisor]

    def _furnish(self, folder: Path, snapshot: "BareSnapshot") -> None:
        setup = toolbox.shell_setup(toolbox.resource_limits(self._limits, is_contained=False))
        toolbox.write_toolbox(folder / "toolbox", self._machine.python, setup)
        if snapshot.folder:
            for name in (TREE, HOME):
                copy_exactly(snapshot.folder / name, folder / name)
        else:
            (folder / HOME).mkdir()
            copy_merged(snapshot.spec.layers, folder / TREE)

    def _environment(self, folder: Path) -> dict[str, str]:
        """As in an isolated sandbox, but packages beside the interpreter are in sight, so their plugins stay out."""
        variables = toolbox.environment(str(folder / "toolbox"), self._machine.runtime, str(folder / HOME))
        return {**variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    async def close(self) -> None:
        """Stop every sandbox, drop every snapshot, and wait until their folders are gone."""
        for snapshot in self._snapshots:
            snapshot.drop()
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        await asyncio.gather(*(asyncio.to_thread(supervisor.wait) for supervisor in self._supervisors))


@dataclass
class BareSnapshot:
    """The folder of a life that is over. Its supervisor stays, to remove it when this is dropped or the host has ended."""

    spec: SandboxSpec
    folder: Path | None = None
    """None where nothing was written yet."""
    keeper: Connection | None = None
    copying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """What is locked is unlocked while it is copied: one copy at a time."""
    is_dropped: bool = field(default=False, init=False)

    def drop(self) -> None:
        """Let go of it. Safe to call twice."""
        self.is_dropped = True
        if self.keeper:
            self.keeper.close("the snapshot was dropped")


class BareLife:
    """Implements `Life` by a folder and a supervisor, who removes it at the end."""

    def __init__(
        self,
        spec: SandboxSpec,
        folder: Path,
        opened: int,
        connection: Connection,
        environment: dict[str, str],
        remember: Callable[[BareSnapshot], None],
    ) -> None:
        """Take over the folder, its descriptor and the connection; whoever closes the provider is told of snapshots."""
        self.connection = connection
        self.environment = environment
        self.workspace = Workspace(spec.workdir, str(folder / TREE), spec.layers, (opened,), TREE, is_stacked=False)
        self._spec = spec
        self._folder = folder
        self._opened = opened
        self._remember = remember
        self._is_frozen = False

    async def freeze(self) -> BareSnapshot:
        """End every process; the folder becomes the snapshot, and whoever goes on from it copies it."""
        await self.connection.request({"op": "end"}, patience_s=GRACE_S)
        self._is_frozen = True
        snapshot = BareSnapshot(self._spec, self._folder, self.connection)
        self._remember(snapshot)
        return snapshot

    async def end(self) -> None:
        """End every process and let go of the folder."""
        try:
            if not self._is_frozen:
                await self.connection.stop(GRACE_S)
        finally:
            os.close(self._opened)
