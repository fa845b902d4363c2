"""What keeps a sandbox in, and what a command in it leaves."""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    """What keeps a sandbox in, the weakest tier first, and who one would be on the host who broke out of it."""

    NONE = "none"
    """Nothing: ordinary processes of the user who runs us, as any other program of his."""
    CONTAINER_ROOT = "container-root"
    """A container of an engine whose root is the host's: who breaks out may be root."""
    CONTAINER_USER = "container-user"
    """A container of an engine with users of its own: who breaks out is the engine's ordinary user, or owns nothing."""
    NAMESPACES_USER = "namespaces-user"
    """Our namespaces, no network, a filter of system calls: who breaks out is the ordinary user who runs us."""
    NAMESPACES_ROOT = "namespaces-root"
    """The same, set up by root: who breaks out is a user who owns nothing."""

    def is_weaker_than(self, other: "Isolation") -> bool:
        return list(Isolation).index(self) < list(Isolation).index(other)


@dataclass(frozen=True)
class ExecResult:
    """What a command in a sandbox left."""

    exit_code: int
    """Exit code; 128 + signal where a signal ended it."""
    output: bytes
    """Standard output and error, in the order written, cut at the sandbox's output limit."""
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    """True where output beyond the limit was dropped."""
    report: bytes = b""
    """What it wrote to the descriptor for reports, at most 16 MiB."""
    is_warm: bool = False
    """True where pytest ran in a fork of a process that had imported it."""
    cwd: str = ""
    """Working directory in which the command ended, for shells that `cd`."""
