"""Isolation tiers of sandboxes and results of their commands."""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    """Isolation tier of a sandbox, weakest first. The tier decides as which user of the host escaped code would run."""

    NONE = "none"
    """No isolation: ordinary processes of the user who runs Turnsmith."""
    CONTAINER_ROOT = "container-root"
    """Container whose root user is the host's root: escaped code may run as root."""
    CONTAINER_USER = "container-user"
    """Container with its own user mapping: escaped code runs as the user who runs Podman, or as an unprivileged user."""
    NAMESPACES_USER = "namespaces-user"
    """Linux namespaces without network, and a system-call filter: escaped code runs as the user who runs Turnsmith."""
    NAMESPACES_ROOT = "namespaces-root"
    """Linux namespaces and a system-call filter, set up by root: escaped code runs as an unprivileged user."""

    def is_weaker_than(self, other: "Isolation") -> bool:
        return list(Isolation).index(self) < list(Isolation).index(other)


@dataclass(frozen=True)
class ExecResult:
    """Result of a command in a sandbox."""

    exit_code: int
    """Exit code; 128 + signal if a signal ended the command."""
    output: bytes
    """Standard output and error in the order written, cut at the sandbox's output limit."""
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    """True if output beyond the limit was dropped."""
    report: bytes = b""
    """Bytes that the command wrote to the file descriptor for test reports, at most 16 MiB."""
    is_warm: bool = False
    """True if pytest ran in a fork of a process that had already imported pytest."""
    cwd: str = ""
    """Working directory of the shell after the command, which `cd` may have changed."""
