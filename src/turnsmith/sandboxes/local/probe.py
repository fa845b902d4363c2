"""What this machine can do for sandboxes, found by doing it."""

import asyncio
import json
import tempfile

from turnsmith.config import SandboxConfig
from turnsmith.errors import TurnsmithError
from turnsmith.sandboxes.base import Sandbox, SandboxSpec
from turnsmith.sandboxes.finding import Finding
from turnsmith.sandboxes.launch import run_inside
from turnsmith.sandboxes.local.provider import LocalProvider
from turnsmith.sandboxes.local.remedies import name_remedy
from turnsmith.temporary import temporary_folder

_LIMITS = SandboxConfig(kind="local", memory_mb=128, max_processes=32, disk_mb=32)

_CHECKS = {
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


def probe_local() -> list[Finding]:
    """Try each part, then a whole sandbox. Call it outside any event loop."""
    findings = probe_kernel()
    return findings + asyncio.run(_probe_sandbox()) if all(finding.ok for finding in findings) else findings


def probe_kernel() -> list[Finding]:
    """Try what the kernel must allow."""
    with tempfile.TemporaryFile() as nothing:
        attempts = run_inside("local.attempts", nothing.fileno(), capture=True)
    printed, _ = attempts.communicate()
    remedy = f"{name_remedy()}; or --sandbox.kind subprocess, which isolates nothing"
    return [Finding(name, not error, error or "works", remedy if error else "") for name, error in json.loads(printed)]


async def _probe_sandbox() -> list[Finding]:
    try:
        provider = LocalProvider(_LIMITS)
    except TurnsmithError as error:
        return [Finding("local sandbox", False, str(error), "--sandbox.kind subprocess")]
    try:
        with temporary_folder("probe") as folder:
            sandbox = await provider.start(SandboxSpec((folder,)))
            return [
                Finding("local sandbox", True, f"isolation {provider.isolation}"),
                *[await _check(sandbox, name) for name in _CHECKS],
            ]
    except TurnsmithError as error:
        return [Finding("local sandbox", False, str(error), "--sandbox.kind subprocess")]
    finally:
        await provider.close()


async def _check(sandbox: Sandbox, name: str) -> Finding:
    command, expected = _CHECKS[name]
    result = await sandbox.exec(command, timeout_s=30)
    output = result.output.decode(errors="replace").strip()
    if expected in output:
        return Finding(name, True, expected.strip())
    return Finding(
        name, False, f"{command!r} printed {output[-200:]!r}", "report this as a bug, with your kernel's version"
    )
