"""Whether podman starts containers here, found by starting one."""

import asyncio
import shutil
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import TurnsmithError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.containers.images import import_root
from turnsmith.sandboxes.containers.interpreter import find_libraries, find_loader
from turnsmith.sandboxes.containers.podman import ask
from turnsmith.sandboxes.containers.provider import ContainerProvider
from turnsmith.sandboxes.machine_check import MachineCheck
from turnsmith.temporary import temporary_folder

_NAME = "containers by podman"
_NEEDLESS = "only tasks that come as images need containers"
_REMEDY = f"{_NEEDLESS}; a script that calls podman with what it lacks can be named by --sandbox.container_engine"
_GREETING = "python -c 'print(6 * 7)'"


def probe_podman(program: str = "podman") -> MachineCheck:
    """Import an image with nothing but a shell, and run a command in a container of it. Call it outside any event loop."""
    if not shutil.which(program):
        return MachineCheck(_NAME, False, f"{program} is not installed", _NEEDLESS)
    try:
        with temporary_folder("probe") as folder:
            image = import_root(program, make_root(folder))
            config = SandboxConfig.model_validate({"kind": "podman", "container_engine": program, "image": image})
            try:
                return MachineCheck(_NAME, True, asyncio.run(_greet(config, folder)))
            finally:
                ask(program, ["rmi", "--force", image])
    except (TurnsmithError, OSError) as error:
        return MachineCheck(_NAME, False, str(error), _REMEDY)


def make_root(folder: Path) -> Path:
    """A root file system that holds this machine's bash and its libraries."""
    bash = Path(shutil.which("bash") or "/bin/bash")
    loader = find_loader(bash)
    for file, place in (
        (bash, "bin/bash"),
        (bash, "bin/sh"),
        *((path, path) for path in (loader, *find_libraries(loader, bash))),
    ):
        copy = folder / str(place).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


async def _greet(config: SandboxConfig, layer: Path) -> str:
    provider = ContainerProvider(config)
    try:
        sandbox = await provider.start(SandboxSpec((layer,)))
        result = await sandbox.exec(_GREETING, timeout_s=60)
        if result.output != b"42\n":
            raise TurnsmithError(f"{_GREETING!r} printed {result.output[-200:]!r}")
        return f"isolation {sandbox.isolation}"
    finally:
        await provider.close()
