"""Whose a container is, by its name: what was left by a process that was killed can be told from what is in use."""

import hashlib
import os
from pathlib import Path

from turnsmith.sandboxes.containers.podman import ask

LABEL = "turnsmith"
"""Every container of ours carries it; its value is the owner's name."""


def name_ourselves() -> str:
    """A name for this process that no other has, ever: the machine since it was started, process id, time of its start."""
    return f"turnsmith-{_name_machine()}-{os.getpid()}-{_start_time(os.getpid())}"


def find_orphans(program: str) -> list[str]:
    """Our containers of this machine whose process is no more. Raises UsageError."""
    return [name for name in _find(program, LABEL) if _is_orphan(name)]


def find_owned(program: str, owner: str) -> list[str]:
    """The containers of one owner, running or not. Raises UsageError."""
    return _find(program, f"{LABEL}={owner}")


def _find(program: str, label: str) -> list[str]:
    return ask(program, ["ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}}"]).split()


def _is_orphan(name: str) -> bool:
    try:
        _, machine, pid, start, _ = name.split("-")
        return machine == _name_machine() and start != _start_time(int(pid))
    except ValueError:
        return False  # somebody else's name


def _name_machine() -> str:
    """Process ids mean something within one namespace of one boot only."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    return hashlib.sha256(f"{boot}{Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:8]


def _start_time(pid: int) -> str:
    """When a process started, in ticks since the boot; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
