"""Checks of this machine's support for sandboxes, by starting one sandbox of each kind."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.sandboxes.containers.interpreter import find_libraries, find_loader
from turnsmith.sandboxes.containers.provider import ContainerProvider
from turnsmith.sandboxes.images.images import import_root
from turnsmith.sandboxes.local import LocalProvider
from turnsmith.sandboxes.podman import PODMAN, ask

_LOCAL, _PODMAN = "local sandbox", "containers by podman"
_LIMITS = SandboxConfig(memory_mb=128, max_processes=32, disk_mb=32)
_NEEDLESS = "only tasks that come as images need containers"
_REMEDY = f"{_NEEDLESS}; --sandbox.container_engine can name a script that calls podman with missing options"

_CHECKS = {
    "replaced folders": ("rm -r folder && mkdir folder && echo replaced", "replaced", "a command replaced a folder"),
    "limit of memory": (
        "python -c 'bytearray(500 << 20)'",
        "MemoryError",
        f"enforced: 500 MB were refused where {_LIMITS.memory_mb} are allowed",
    ),
    "limit of disk": (
        "head -c 100M /dev/zero > file",
        "No space left on device",
        f"enforced: 100 MB were refused where {_LIMITS.disk_mb} are allowed",
    ),
    "no network": (
        "python -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'",
        "Network is unreachable",
        "enforced: a connection to 1.1.1.1 was refused",
    ),
    "python runtime": ("python -m pytest --version", "pytest ", "Python runs pytest"),
    "limit of processes": (
        "for i in $(seq 60); do sleep 1 & done",
        "Resource temporarily unavailable",
        f"enforced: 60 processes were refused where {_LIMITS.max_processes} are allowed",
    ),
}
"""Name of a check → command to run in a sandbox, text expected in its output, and the finding on success."""
_GREETING = {_PODMAN: ("python -c 'print(6 * 7)'", "42", "Python runs")}


@dataclass(frozen=True)
class MachineCheck:
    """Result of one check of this machine."""

    name: str
    ok: bool
    detail: str
    """Observation of the check, in one line."""
    remedy: str = ""
    """Advice to the user if the check failed; empty on success."""


def probe_local() -> list[MachineCheck]:
    """Start a local sandbox and check its limits and features. Must be called outside an event loop."""
    try:
        isolation, checks = asyncio.run(_try_out(LocalProvider, _LIMITS, _CHECKS))
    except UsageError as error:
        fact, _, remedy = str(error).rpartition(": ")
        return [MachineCheck(_LOCAL, False, fact, remedy)]
    except TurnsmithError as error:
        return [MachineCheck(_LOCAL, False, str(error), "--sandbox.kind subprocess, which isolates nothing")]
    return [MachineCheck(_LOCAL, True, f"isolation {isolation}"), *checks]


def probe_podman(program: str = PODMAN) -> MachineCheck:
    """Check podman: import an image that holds only a shell, and run a command in it. Must be called outside an event loop."""
    if not shutil.which(program):
        return MachineCheck(_PODMAN, False, f"{program} is not installed", _NEEDLESS)
    try:
        with temporary_folder("probe") as folder:
            image = import_root(program, make_root(folder))
            config = SandboxConfig(container_engine=program, image=image)
            try:
                isolation, [check] = asyncio.run(_try_out(ContainerProvider, config, _GREETING))
            finally:
                ask(program, ["rmi", "--force", image])
    except (TurnsmithError, OSError) as error:
        return MachineCheck(_PODMAN, False, str(error), _REMEDY)
    return MachineCheck(_PODMAN, True, f"isolation {isolation}") if check.ok else check


def make_root(folder: Path) -> Path:
    """Build a root file system that holds this machine's bash and its libraries."""
    bash = Path(shutil.which("bash") or "/bin/bash")
    loader = find_loader(bash)
    places = [(bash, "bin/bash"), (bash, "bin/sh"), *((path, path) for path in (loader, *find_libraries(loader, bash)))]
    for file, place in places:
        copy = folder / str(place).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


async def _try_out(
    kind: type[SandboxProvider], config: SandboxConfig, checks: dict[str, tuple[str, str, str]]
) -> tuple[str, list[MachineCheck]]:
    provider = kind(config)
    found = []
    try:
        with temporary_folder("probe") as folder:
            (folder / "folder").mkdir()
            sandbox = await provider.start(SandboxSpec((folder,)))
            for name, (command, expected, finding) in checks.items():
                result = await sandbox.exec(command, timeout_s=60)
                output = result.output.decode(errors="replace").strip()
                found.append(
                    MachineCheck(name, True, finding) if expected in output else _report(name, command, output)
                )
    finally:
        await provider.close()
    return provider.isolation, found


def _report(name: str, command: str, output: str) -> MachineCheck:
    remedy = "report this as a bug, with your kernel's version"
    return MachineCheck(name, False, f"{command!r} printed {output[-200:]!r}", remedy)
