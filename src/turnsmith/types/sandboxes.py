"""Isolation tiers of sandboxes and results of their commands."""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    """Isolation tier of a sandbox, weakest first; each names the host user that an escape would reach."""

    NONE = "none"
    """No isolation: ordinary processes of the user who runs Turnsmith."""
    CONTAINER_ROOT = "container-root"
    """Container whose root is the host's root: an escape may gain root."""
    CONTAINER_USER = "container-user"
    """Container with its own user mapping: an escape gains the ordinary user who runs Podman, or an unprivileged user."""
    NAMESPACES_USER = "namespaces-user"
    """Namespaces without network, and a system-call filter: an escape gains the user who runs Turnsmith."""
    NAMESPACES_ROOT = "namespaces-root"
    """The same namespaces and filter, set up by root: an escape gains an unprivileged user."""

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
    """Bytes that the command wrote to the descriptor for test reports, at most 16 MiB."""
    is_warm: bool = False
    """True if pytest ran in a fork of a process that had imported it."""
    cwd: str = ""
    """Working directory after the command, for shells that `cd`."""
