"""Sandboxes that isolate nothing: ordinary processes over a copied tree, for machines that forbid namespaces."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import toolbox
from turnsmith.sandboxes.launch import run_inside, to_limits
from turnsmith.sandboxes.layers import copy_merged
from turnsmith.sandboxes.runtime import describe_machine
from turnsmith.sandboxes.supervised import SupervisedSandbox, Workspace


class BareProvider:
    """Copies the layers and starts one supervisor per sandbox. Memory is watched; processes and disk are not limited."""

    isolation = "none"

    def __init__(self, config: SandboxConfig) -> None:
        self._limits = to_limits(config)
        self._machine = describe_machine()
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._sandboxes: list[SupervisedSandbox] = []

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        try:
            folder, connection, tree = await self._launch(spec)
        except OSError as error:
            raise SandboxError(f"the sandbox could not start: {error}") from None
        workspace = Workspace(spec.workdir, str(folder / "tree"), spec.layers, tree, is_stacked=False)
        sandbox = SupervisedSandbox(self.isolation, connection, workspace, self._environment(folder))
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def _launch(self, spec: SandboxSpec) -> tuple[Path, Connection, int]:
        """A furnished folder, the connection to its supervisor, and the working tree's descriptor. Raises OSError."""
        ours, theirs = socket.socketpair()  # first: without free descriptors no folder could be removed again
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)  # which ends the supervisor
            folder = Path(tempfile.mkdtemp(prefix="turnsmith-sandbox-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            await finish_in_thread(lambda: self._furnish(folder, spec))
            tree = os.open(folder / "tree", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            undo.callback(os.close, tree)
            self._start_supervisor(folder, theirs)
            theirs.close()  # or the supervisor would never see ours close
            connection = await Connection.open(ours, self._limits.payload_bytes)
            undo.pop_all()
        return folder, connection, tree

    def _start_supervisor(self, folder: Path, end: socket.socket) -> None:
        supervisor = run_inside("plain", end.fileno(), str(folder), *map(str, astuple(self._limits)))
        self._supervisors = [*(other for other in self._supervisors if other.poll() is None), supervisor]

    def _furnish(self, folder: Path, spec: SandboxSpec) -> None:
        (folder / "home").mkdir()
        toolbox.write_toolbox(
            folder / "toolbox", self._machine.python, toolbox.shell_setup(self._limits, is_contained=False)
        )
        copy_merged(spec.layers, folder / "tree")

    def _environment(self, folder: Path) -> dict[str, str]:
        """As in an isolated sandbox, but packages beside the interpreter are in sight, so their plugins stay out."""
        variables = toolbox.environment(str(folder / "toolbox"), self._machine.runtime, str(folder / "home"))
        return {**variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    async def close(self) -> None:
        """Stop every sandbox, and wait until its folder is gone."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        await asyncio.gather(*(asyncio.to_thread(supervisor.wait) for supervisor in self._supervisors))


async def finish_in_thread(work: Callable[[], None]) -> None:
    """Work in a thread; who is cancelled meanwhile still waits for its end, since no thread can be interrupted."""
    working = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
