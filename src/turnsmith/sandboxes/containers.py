"""Sandboxes in containers of Podman or Docker, for tasks that come as images.

Our supervisor is process 1 of each, on an interpreter that we bring along, so an action costs what it costs in any sandbox.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, TurnsmithError
from turnsmith.sandboxes import container_engine
from turnsmith.sandboxes.base import SandboxSpec, Snapshot
from turnsmith.sandboxes.container_engine import find_engine
from turnsmith.sandboxes.container_files import ContainerSnapshot, ContainerWorkspace, keep_base, take_snapshot, under
from turnsmith.sandboxes.container_images import Image, find_image
from turnsmith.sandboxes.container_owners import find_orphans, find_owned, name_ourselves
from turnsmith.sandboxes.container_start import Container, Recipe, start_container
from turnsmith.sandboxes.far_tree import FarTree, Listing, join, pack_hidden, pack_layers
from turnsmith.sandboxes.inside import contained, toolbox
from turnsmith.sandboxes.interpreter import prepare_interpreter, prepare_toolbox
from turnsmith.sandboxes.launch import to_limits
from turnsmith.sandboxes.patience import draw, finish_in_thread
from turnsmith.sandboxes.supervised import GRACE_S, SupervisedSandbox


class ContainerProvider:
    """Starts a container for each sandbox. They end with this process; what an accident leaves, the next provider removes."""

    def __init__(self, config: SandboxConfig) -> None:
        """Raises UsageError where the engine is not there or does not work, or has not the image for tasks that name none."""
        engine, limits = find_engine(config.container_engine or config.kind), to_limits(config)
        setup = toolbox.shell_setup(toolbox.contained_limits(limits))
        lent = {contained.PYTHON: prepare_interpreter(), contained.TOOLBOX: prepare_toolbox(setup)}
        self._recipe = Recipe(engine, limits, lent, name_ourselves())
        self._default_image = config.image
        self._numbers = itertools.count()
        self._images = {name: find_image(engine.program, name) for name in [config.image] if name}
        self._pristine: dict[str, Listing] = {}
        """By identity of the image."""
        self._learning = asyncio.Lock()
        self._sandboxes: list[SupervisedSandbox] = []
        self.isolation = engine.isolation
        self.program = engine.program
        self.owner = self._recipe.owner
        for orphan in find_orphans(engine.program):
            container_engine.remove_at_once(engine.program, orphan)

    async def start(self, spec: SandboxSpec) -> SupervisedSandbox:
        """A ready sandbox. Raises SandboxError."""
        return await self.start_from(ContainerSnapshot(spec))

    async def start_from(self, snapshot: Snapshot) -> SupervisedSandbox:
        """A sandbox with the files of a snapshot. Raises SandboxError."""
        sandbox = SupervisedSandbox(self, await self.launch(snapshot))
        self._sandboxes = [*(other for other in self._sandboxes if not other.is_stopped), sandbox]
        return sandbox

    async def launch(self, snapshot: Snapshot) -> "ContainerLife":
        """A container with the files of a snapshot. Raises SandboxError."""
        if not isinstance(snapshot, ContainerSnapshot):
            raise ValueError("a snapshot can be used by the provider of its sandbox only")
        if snapshot.is_dropped:
            raise ValueError("the snapshot was dropped")
        try:
            return await self._launch(snapshot)
        except (OSError, TurnsmithError) as error:
            raise SandboxError(f"the sandbox could not start: {error}") from None

    async def _launch(self, snapshot: ContainerSnapshot) -> "ContainerLife":
        spec = snapshot.spec
        image = await self._find_image(spec.image or self._default_image)
        container = await self._start(image, spec.workdir)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(container.end, GRACE_S)
            workspace = await furnish(FarTree(container.connection, spec.workdir), spec, image)
            async for records in draw(snapshot.read()):
                await FarTree(container.connection, "/").unpack(records)
            undo.pop_all()
        pristine = partial(self._list_pristine, image)
        return ContainerLife(
            spec, container, workspace, make_environment(image), pristine, self._recipe.limits.disk_bytes
        )

    async def _find_image(self, name: str) -> Image:
        async with self._learning:
            if name not in self._images:
                self._images[name] = await finish_in_thread(partial(find_image, self._recipe.engine.program, name))
            return self._images[name]

    async def _list_pristine(self, image: Image) -> Listing:
        """All files of a container of that image in which nothing has happened; it takes one container to know."""
        async with self._learning:
            if image.identity not in self._pristine:
                container = await self._start(image, "/")
                try:
                    self._pristine[image.identity] = await FarTree(container.connection, "/").list()
                finally:
                    await container.end(GRACE_S)
            return self._pristine[image.identity]

    async def _start(self, image: Image, workdir: str) -> Container:
        name = f"{self._recipe.owner}-{next(self._numbers)}"
        return await start_container(self._recipe, name, image.identity, workdir)

    async def close(self) -> None:
        """Stop every sandbox, and remove what was still being started."""
        await asyncio.gather(*(sandbox.stop() for sandbox in self._sandboxes))
        program = self._recipe.engine.program
        await container_engine.remove(
            program, *await finish_in_thread(partial(find_owned, program, self._recipe.owner))
        )


class ContainerLife:
    """Implements `Life` by a container."""

    def __init__(
        self,
        spec: SandboxSpec,
        container: Container,
        workspace: ContainerWorkspace,
        environment: dict[str, str],
        list_pristine: Callable[[], Coroutine[None, None, Listing]],
        max_bytes: int,
    ) -> None:
        """Take over the container."""
        self.connection = container.connection
        self.workspace = workspace
        self.environment = environment
        self._spec = spec
        self._container = container
        self._list_pristine = list_pristine
        self._max_bytes = max_bytes

    async def freeze(self) -> ContainerSnapshot:
        """End every process, and carry out what was written since the image. Raises SandboxError."""
        await self.connection.request({"op": "end"}, patience_s=GRACE_S)
        before = {**await self._list_pristine(), **under(self._spec.workdir, self.workspace.before)}
        return await take_snapshot(self._spec, FarTree(self.connection, "/"), before, self._max_bytes)

    async def end(self) -> None:
        """End every process and remove the container."""
        await self._container.end(GRACE_S)


async def furnish(tree: FarTree, spec: SandboxSpec, image: Image) -> ContainerWorkspace:
    """Put the layers over what the image holds in their place. Raises SandboxError, OSError."""
    found = await tree.list()
    if not found and not spec.layers:
        raise SandboxError(f"the image holds nothing at {spec.workdir}, and the task has no layers")
    key = hashlib.sha256(f"{image.identity}\0{spec.workdir}".encode()).hexdigest()[:16]
    base = (await keep_base(tree, found, f"image-{key}"),) if found else ()
    hidden = await finish_in_thread(partial(pack_hidden, base, spec.layers))
    async for records in draw(join(itertools.chain(hidden, pack_layers(spec.layers)))):
        await tree.unpack(records)
    return ContainerWorkspace(tree, await tree.list(), (*base, *spec.layers))


def make_environment(image: Image) -> dict[str, str]:
    """What the image says, ours where it says nothing, and a Python for an image that has none."""
    ours = toolbox.environment("", "", image.home)
    path = image.environment.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        **ours,
        "USER": "root",
        **image.environment,
        **toolbox.INTERPRETER,
        "PATH": f"{path}:{contained.PYTHON}/bin",
    }
