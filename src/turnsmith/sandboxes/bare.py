"""Sandboxes that isolate nothing: ordinary processes over a copied tree, for machines that forbid namespaces."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
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
        folder = Path(tempfile.mkdtemp(prefix="turnsmith-sandbox-"))
        try:
            await asyncio.to_thread(self._furnish, folder, spec)
            ours, theirs = socket.socketpair()
            with theirs:
                supervisor = run_inside("plain", theirs.fileno(), str(folder), *map(str, astuple(self._limits)))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise SandboxError(f"the sandbox could not start: {error}") from None
        self._supervisors = [*(other for other in self._supervisors if other.poll() is None), supervisor]
        tree = os.open(folder / "tree", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        workspace = Workspace(spec.workdir, str(folder / "tree"), spec.layers, tree, is_stacked=False)
        environment = self._environment(folder) | spec.env
        sandbox = SupervisedSandbox(self.isolation, await Connection.open(ours), workspace, environment)
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

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
