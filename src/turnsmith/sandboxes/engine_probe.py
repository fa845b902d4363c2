"""Whether an engine starts containers here, found by starting one."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from turnsmith.config import CONTAINER_KINDS, SandboxConfig
from turnsmith.errors import TurnsmithError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.container_engine import ask
from turnsmith.sandboxes.container_images import import_root
from turnsmith.sandboxes.containers import ContainerProvider
from turnsmith.sandboxes.interpreter import find_libraries, find_loader
from turnsmith.sandboxes.probe import Finding

_NEEDLESS = "only tasks that come as images need containers"
_REMEDY = f"{_NEEDLESS}; a script that calls the engine with what it lacks can be named by --sandbox.container_engine"
_GREETING = "python -c 'print(6 * 7)'"


def probe_engines() -> list[Finding]:
    """Try each engine that is installed. Call it outside any event loop."""
    kinds = [kind for kind in CONTAINER_KINDS if shutil.which(kind)]
    if not kinds:
        return [Finding("containers", False, f"neither {' nor '.join(CONTAINER_KINDS)} is installed", _NEEDLESS)]
    return [probe_engine(kind, kind) for kind in kinds]


def probe_engine(kind: str, program: str) -> Finding:
    """Import an image with nothing but a shell, and run a command in a container of it."""
    try:
        with tempfile.TemporaryDirectory(prefix="turnsmith-probe-") as folder:
            image = import_root(program, make_root(Path(folder)))
            config = SandboxConfig.model_validate({"kind": kind, "container_engine": program, "image": image})
            try:
                return Finding(f"containers by {kind}", True, asyncio.run(_greet(config, Path(folder))))
            finally:
                ask(program, ["rmi", "--force", image])
    except (TurnsmithError, OSError) as error:
        return Finding(f"containers by {kind}", False, str(error), _REMEDY)


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
