"""Sandboxes in containers of Podman, for tasks that come as images.

Our supervisor is process 1 of each, on an interpreter that we bring along, so an action costs what it costs in any sandbox.
The working tree is a folder of this machine, so its patch is taken as that of any other.
"""

import asyncio
import itertools
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, TurnsmithError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.containers import podman
from turnsmith.sandboxes.containers.container import Settings, remove_or_leave, start_container
from turnsmith.sandboxes.containers.image_trees import find_tree
from turnsmith.sandboxes.containers.images import Image, find_image
from turnsmith.sandboxes.containers.interpreter import prepare_interpreter, prepare_toolbox
from turnsmith.sandboxes.containers.owners import find_orphans, find_owned, name_ourselves
from turnsmith.sandboxes.finishing import finish_in_thread
from turnsmith.sandboxes.inside import container, toolbox
from turnsmith.sandboxes.launch import to_limits
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox
from turnsmith.sandboxes.working_tree import copy_tree
from turnsmith.temporary import temporary_folder


class ContainerProvider:
    """Starts a container for each sandbox. They end with this process; what an accident leaves, the next provider removes."""

    isolation = "container-user"

    def __init__(self, config: SandboxConfig) -> None:
        """Raises UsageError where podman is not there or does not work, or has not the image for tasks that name none."""
        engine, limits = podman.find_podman(config.container_engine or "podman"), to_limits(config)
        setup = toolbox.shell_setup(toolbox.contained_limits(limits))
        lent = {container.PYTHON: prepare_interpreter(), container.TOOLBOX: prepare_toolbox(setup)}
        self.program = engine.program
        self.owner = name_ourselves()
        self._settings = Settings(engine, limits, lent, self.owner)
        self._default_image = config.image
        self._numbers = itertools.count()
        self._images = {name: find_image(engine.program, name) for name in [config.image] if name}
        self._learning = asyncio.Lock()
        self._sandboxes: list[SupervisedSandbox] = []
        podman.remove(engine.program, *find_orphans(engine.program))

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        try:
            sandbox = await self._start(spec)
        except (OSError, TurnsmithError) as error:
            raise SandboxError(f"the sandbox could not start: {error}") from None
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def _start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A copy of the tree, and a container that shows it. Raises OSError, TurnsmithError."""
        image, base = await self._learn(spec.image or self._default_image, spec.workdir)
        if not base and not spec.layers:
            raise SandboxError(f"the image holds nothing at {spec.workdir}, and the task has no layers")
        layers = (*base, *spec.layers)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, (files := ExitStack()).close)
            folder = files.enter_context(temporary_folder("container"))
            tree = await finish_in_thread(partial(copy_tree, layers, folder, spec.workdir, spec.workdir, files))
            name = self._make_name()
            connection = await start_container(self._settings, name, image.identity, spec.workdir, folder)
            undo.push_async_callback(remove_or_leave, self._settings.podman, name)
            undo.push_async_callback(connection.stop, GRACE_S)
            return SupervisedSandbox(self.isolation, connection, tree, make_environment(image), undo.pop_all())

    async def _learn(self, name: str, workdir: str) -> tuple[Image, tuple[Path, ...]]:
        """The image of that name, and its own files at the workdir. Raises UsageError."""
        async with self._learning:
            if name not in self._images:
                self._images[name] = await finish_in_thread(partial(find_image, self.program, name))
            image = self._images[name]
            base = await finish_in_thread(partial(find_tree, self.program, image, workdir, self._make_name()))
            return image, base

    def _make_name(self) -> str:
        return f"{self.owner}-{next(self._numbers)}"

    async def close(self) -> None:
        """Stop every sandbox, and remove what was still being started."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        await finish_in_thread(lambda: podman.remove(self.program, *find_owned(self.program, self.owner)))


def make_environment(image: Image) -> dict[str, str]:
    """What the image says, ours where it says nothing, and a Python for an image that has none."""
    ours = toolbox.environment("", "", image.home)
    path = image.environment.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        **ours,
        "USER": "root",
        **image.environment,
        **toolbox.INTERPRETER,
        "PATH": f"{path}:{container.PYTHON}/bin",
    }
