"""Sandboxes that isolate nothing: ordinary processes over a copied tree, for machines that forbid namespaces."""

import asyncio
import socket
import subprocess
from contextlib import AsyncExitStack, ExitStack
from dataclasses import astuple
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.finishing import finish_in_thread
from turnsmith.sandboxes.inside import toolbox
from turnsmith.sandboxes.launch import refuse_image, run_inside, to_limits, wait_or_kill
from turnsmith.sandboxes.runtime import describe_python
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox
from turnsmith.sandboxes.working_tree import WorkingTree, copy_tree
from turnsmith.temporary import temporary_folder
from turnsmith.types import Isolation


class SubprocessProvider:
    """Copies the layers and starts one supervisor per sandbox. Memory is watched; processes and disk are not limited."""

    isolation: str = Isolation.NONE

    def __init__(self, config: SandboxConfig) -> None:
        self._limits = to_limits(config)
        self._python = describe_python(plugins=config.test_plugins)
        self._sandboxes: list[SupervisedSandbox] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        refuse_image(spec)
        try:
            sandbox = await self._start(spec)
        except OSError as error:
            raise SandboxError(f"the sandbox could not start: {error}") from None
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def _start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A folder with a copy of the tree, and a supervisor that serves it. Raises OSError."""
        async with AsyncExitStack() as undo:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                undo.push_async_callback(asyncio.to_thread, (files := ExitStack()).close)
                folder = files.enter_context(temporary_folder("sandbox"))
                tree = await finish_in_thread(lambda: self._fill(folder, spec, files))
                supervisor = self._start_supervisor(folder, theirs)
            undo.push_async_callback(asyncio.to_thread, wait_or_kill, supervisor)
            undo.callback(ours.close)  # which ends it
            connection = await Connection.open(ours, self._limits.payload_bytes)
            undo.push_async_callback(connection.stop, GRACE_S)
            environment = self._make_environment(folder)
            return SupervisedSandbox(self.isolation, connection, tree, environment, undo.pop_all())

    def _fill(self, folder: Path, spec: SandboxSpec, undo: ExitStack) -> WorkingTree:
        setup = toolbox.shell_setup(toolbox.resource_limits(self._limits, is_contained=False))
        toolbox.write_toolbox(folder / "toolbox", self._python.program, setup)
        (folder / "home").mkdir()
        return copy_tree(spec.layers, folder, spec.workdir, str(folder / "tree"), undo)

    def _start_supervisor(self, folder: Path, end: socket.socket) -> subprocess.Popen[bytes]:
        return run_inside("unisolated", end.fileno(), str(folder), *map(str, astuple(self._limits)))

    def _make_environment(self, folder: Path) -> dict[str, str]:
        """As in an isolated sandbox, but packages beside the interpreter are in sight, so their plugins stay out."""
        variables = toolbox.environment(str(folder / "toolbox"), self._python.runtime, str(folder / "home"))
        return {**variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    async def close(self) -> None:
        """Stop every sandbox, and wait until their folders are gone."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
