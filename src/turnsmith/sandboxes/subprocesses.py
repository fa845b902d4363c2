"""Sandboxes without isolation: ordinary processes on a copied tree, for machines that forbid namespaces."""

from contextlib import ExitStack
from dataclasses import astuple

from turnsmith.config import SandboxConfig
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import toolbox
from turnsmith.sandboxes.launch import run_inside, wait_or_kill
from turnsmith.sandboxes.runtime import describe_python
from turnsmith.sandboxes.supervised import Parts, SupervisedProvider
from turnsmith.sandboxes.working_tree import copy_tree
from turnsmith.types import Isolation


class SubprocessProvider(SupervisedProvider):
    """Provider that, for each sandbox, copies the working tree and starts a supervisor process without isolation.

    It limits memory, but neither the number of processes nor the total disk use.
    """

    isolation: str = Isolation.NONE

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._python = describe_python(plugins=config.test_plugins)

    async def _make(self, spec: SandboxSpec, held: ExitStack) -> Parts:
        folder = held.enter_context(temporary_folder("sandbox"))
        setup = toolbox.shell_setup(toolbox.resource_limits(self._limits, has_own_processes=False))
        toolbox.write_toolbox(folder / "toolbox", self._python.program, setup)
        (folder / "home").mkdir()
        tree = await copy_tree(spec.layers, folder / "tree", spec.workdir, str(folder / "tree"), held)
        supervisor, end = run_inside("supervisor", str(folder), *map(str, astuple(self._limits)))
        held.callback(wait_or_kill, supervisor)
        held.callback(end.close)  # closing it ends the supervisor
        environment = {
            **toolbox.environment(str(folder / "toolbox"), self._python.runtime, str(folder / "home")),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # site-packages of the interpreter are visible
        }
        return await Connection.open(end, self._limits.payload_bytes), tree, environment
