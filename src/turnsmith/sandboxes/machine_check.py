"""What was found out about this machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MachineCheck:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    """What was seen, in one line."""
    remedy: str = ""
    """What to do about it; empty where it works."""
