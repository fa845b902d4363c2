"""Sandboxes on this machine by Linux namespaces and overlayfs: no daemon, no root needed, started in milliseconds."""

import asyncio
import os
from contextlib import AsyncExitStack

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.inside import toolbox
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.mounts import UPPER
from turnsmith.sandboxes.inside.wire import StartRequest
from turnsmith.sandboxes.launch import refuse_image
from turnsmith.sandboxes.local.spawner import SpawnerProcess
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox
from turnsmith.sandboxes.working_tree import WorkingTree


class LocalProvider:
    """Starts sandboxes by a spawner."""

    def __init__(self, config: SandboxConfig) -> None:
        """Raises UsageError where this machine forbids local sandboxes."""
        self._config = config
        self._spawner = SpawnerProcess(config)
        self._sandboxes: list[SupervisedSandbox] = []
        self.isolation = self._spawner.isolation

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        refuse_image(spec)
        self._revive_spawner()
        try:
            sandbox = await self._start(spec)
        except OSError as error:
            raise SandboxError(f"the sandbox could not start: {str(error) or 'no answer'}") from None
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    def _revive_spawner(self) -> None:
        """Where someone has killed it, and with it all that it forked, start another. Raises SandboxError."""
        if not self._spawner.was_killed:
            return
        self._spawner.close()
        try:
            self._spawner = SpawnerProcess(self._config)
        except UsageError as error:
            raise SandboxError(f"the spawner was killed, and no other could start: {error}") from None

    async def _start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A sandbox, and a descriptor of what it writes. Raises OSError."""
        layers = [str(layer.resolve()) for layer in spec.layers]
        connection, scratch = await self._spawner.fork(StartRequest(layers, spec.workdir, spec.is_for_tests))
        resources = AsyncExitStack()
        resources.callback(close_in_thread, scratch)
        resources.push_async_callback(connection.stop, GRACE_S)
        tree = WorkingTree(spec.workdir, spec.workdir, spec.layers, scratch, UPPER, is_stacked=True)
        environment = toolbox.environment(root.TOOLBOX, root.RUNTIME, root.HOME)
        return SupervisedSandbox(self.isolation, connection, tree, environment, resources)

    async def close(self) -> None:
        """Stop every sandbox, then the spawner."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        self._spawner.close()


def close_in_thread(scratch: int) -> None:
    """It is the last hold of a mount: the kernel takes a millisecond."""
    asyncio.get_running_loop().run_in_executor(None, os.close, scratch)
