"""Sandboxes on this machine by Linux namespaces and overlayfs: no daemon, no root needed, started in milliseconds."""

import asyncio
import os
from contextlib import ExitStack

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.sandboxes.base import SandboxSpec, Snapshot
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.frozen import Frozen, LocalSnapshot
from turnsmith.sandboxes.inside import template, toolbox
from turnsmith.sandboxes.inside.stacking import UPPER
from turnsmith.sandboxes.inside.wire import StartRequest
from turnsmith.sandboxes.launch import refuse_image
from turnsmith.sandboxes.spawning import Spawner
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox
from turnsmith.sandboxes.workspace import Workspace

MAX_FROZEN = 200
"""How deep a stack of snapshots may be: overlayfs takes one page of options."""

MIN_DISK_BYTES = 1 << 18
"""What a sandbox may write where the snapshots below it have used up its limit: enough for its own few folders."""


class LocalProvider:
    """Starts sandboxes by a spawner."""

    def __init__(self, config: SandboxConfig) -> None:
        """Raises UsageError where this machine forbids local sandboxes."""
        self._config = config
        self._spawner = Spawner(config)
        self.isolation = self._spawner.isolation
        self._sandboxes: list[SupervisedSandbox] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        refuse_image(spec)
        return await self.start_from(LocalSnapshot(spec))

    async def start_from(self, snapshot: Snapshot) -> SupervisedSandbox:
        """A sandbox with the files of a snapshot. Raises SandboxError."""
        self._revive_spawner()
        sandbox = SupervisedSandbox(self, await self.launch(snapshot))
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    def _revive_spawner(self) -> None:
        """Where someone has killed it, and with it all that it forked, start another. Raises SandboxError."""
        if not self._spawner.was_killed:
            return
        self._spawner.close()
        try:
            self._spawner = Spawner(self._config)
        except UsageError as error:
            raise SandboxError(f"the spawner was killed, and no other could start: {error}") from None

    async def launch(self, snapshot: Snapshot) -> "LocalLife":
        """A new life over the files of a snapshot. Raises SandboxError."""
        snapshot = check_usable(snapshot, self._spawner).copy()
        try:
            connection, scratch = await self._spawner.fork(self._to_request(snapshot.spec, snapshot.frozen))
        except OSError as error:
            snapshot.drop()
            raise SandboxError(f"the sandbox could not start: {str(error) or 'no answer'}") from None
        except BaseException:
            snapshot.drop()
            raise
        return LocalLife(self._spawner, snapshot, connection, scratch)

    def _to_request(self, spec: SandboxSpec, frozen: tuple[Frozen, ...]) -> StartRequest:
        """What was written before counts towards the limit, so that a stack never holds more than one sandbox may."""
        used_bytes = sum(each.used_bytes for each in frozen)
        return StartRequest(
            layers=[str(layer.resolve()) for layer in spec.layers],
            frozen=[each.number for each in frozen],
            workdir=spec.workdir,
            disk_bytes=max(self._spawner.limits.disk_bytes - used_bytes, MIN_DISK_BYTES),
            is_for_tests=spec.is_for_tests,
        )

    async def close(self) -> None:
        """Stop every sandbox, then the spawner."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        self._spawner.close()


def check_usable(snapshot: Snapshot, spawner: Spawner) -> LocalSnapshot:
    """Raises ValueError for what is not ours or was dropped, SandboxError where the stack is too deep."""
    if isinstance(snapshot, LocalSnapshot) and any(each.spawner.was_killed for each in snapshot.frozen):
        raise SandboxError("the snapshot is lost: the spawner that held it was killed")
    if not isinstance(snapshot, LocalSnapshot) or any(each.spawner is not spawner for each in snapshot.frozen):
        raise ValueError("a snapshot can be used by the provider of its sandbox only")
    if snapshot.is_dropped:
        raise ValueError("the snapshot was dropped")
    if len(snapshot.frozen) > MAX_FROZEN:
        raise SandboxError(f"no more than {MAX_FROZEN} snapshots can be stacked")
    return snapshot


class LocalLife:
    """Implements `Life` by a box that the spawner has forked."""

    def __init__(self, spawner: Spawner, origin: LocalSnapshot, connection: Connection, scratch: int) -> None:
        """Take over the snapshot, the connection and the descriptor."""
        self.connection = connection
        self.environment = toolbox.environment(template.TOOLBOX, template.RUNTIME, template.HOME)
        self._spawner = spawner
        self._origin = origin
        self._scratch = scratch
        written = (scratch, *(each.scratch for each in reversed(origin.frozen)))
        spec = origin.spec
        self.workspace = Workspace(spec.workdir, spec.workdir, spec.layers, written, UPPER, is_stacked=True)

    async def freeze(self) -> LocalSnapshot:
        """End every process, and keep what was written; nothing is copied. Raises SandboxError."""
        await self.connection.request({"op": "end"}, patience_s=GRACE_S)
        self.connection.close("the sandbox was frozen")
        with ExitStack() as undo:
            try:
                scratch = os.dup(self._scratch)
                undo.callback(os.close, scratch)
                frozen = Frozen(self._spawner, scratch)
            except OSError as error:
                raise SandboxError(f"cannot freeze the sandbox: {error}") from None
            undo.pop_all()
        below = self._origin.copy()
        return LocalSnapshot(below.spec, (*below.frozen, frozen))

    async def end(self) -> None:
        """End every process and let go of the files."""
        try:
            await self.connection.stop(GRACE_S)
        finally:
            self._origin.drop()
            asyncio.get_running_loop().run_in_executor(None, os.close, self._scratch)  # a mount: it takes a millisecond
