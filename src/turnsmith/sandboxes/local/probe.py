"""What this machine can do for local sandboxes, found by starting one and trying what it promises."""

import asyncio

from turnsmith.config import SandboxConfig
from turnsmith.errors import TurnsmithError
from turnsmith.sandboxes.base import Sandbox, SandboxSpec
from turnsmith.sandboxes.local.provider import LocalProvider
from turnsmith.sandboxes.machine_check import MachineCheck
from turnsmith.temporary import temporary_folder

_NAME = "local sandbox"
_LIMITS = SandboxConfig(kind="local", memory_mb=128, max_processes=32, disk_mb=32)

_CHECKS = {
    "folders of layers": ("rm -r folder && mkdir folder && echo replaced", "replaced"),
    "limit of memory": ("python -c 'bytearray(500 << 20)'", "MemoryError"),
    "limit of disk": ("head -c 100M /dev/zero > file", "No space left on device"),
    "no network": (
        "python -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'",
        "Network is unreachable",
    ),
    "python runtime": ("python -m pytest --version", "pytest "),
    "limit of processes": ("for i in $(seq 60); do sleep 1 & done", "Resource temporarily unavailable"),
}
"""Command to run in a real sandbox, and what its output must contain."""


def probe_local() -> list[MachineCheck]:
    """Start a sandbox, and try each part of it. Call it outside any event loop."""
    try:
        return asyncio.run(_try_out())
    except TurnsmithError as error:
        return [MachineCheck(_NAME, False, str(error), "--sandbox.kind subprocess, which isolates nothing")]


async def _try_out() -> list[MachineCheck]:
    provider = LocalProvider(_LIMITS)
    try:
        with temporary_folder("probe") as folder:
            (folder / "folder").mkdir()
            sandbox = await provider.start(SandboxSpec((folder,)))
            found = MachineCheck(_NAME, True, f"isolation {provider.isolation}")
            return [found, *[await _check(sandbox, name) for name in _CHECKS]]
    finally:
        await provider.close()


async def _check(sandbox: Sandbox, name: str) -> MachineCheck:
    command, expected = _CHECKS[name]
    result = await sandbox.exec(command, timeout_s=30)
    output = result.output.decode(errors="replace").strip()
    if expected in output:
        return MachineCheck(name, True, expected.strip())
    return MachineCheck(
        name, False, f"{command!r} printed {output[-200:]!r}", "report this as a bug, with your kernel's version"
    )
