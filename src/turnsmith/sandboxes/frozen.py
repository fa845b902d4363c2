"""What local sandboxes wrote before they were frozen, held as long as anyone builds on it."""

import os
from dataclasses import dataclass, field

from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.inside.stacking import INODE_BYTES
from turnsmith.sandboxes.spawning import Spawner


class Frozen:
    """The scratch space of a sandbox that has ended. Its files live until the last holder and the last mount let go."""

    def __init__(self, spawner: Spawner, scratch: int) -> None:
        """Take over a descriptor. Raises OSError, and then takes nothing over."""
        self.spawner = spawner
        self._num_holders = 1
        self.scratch = scratch
        self.used_bytes = count_used_bytes(scratch)
        self.number = spawner.keep(scratch)

    def hold(self) -> None:
        self._num_holders += 1

    def release(self) -> None:
        self._num_holders -= 1
        if self._num_holders == 0:
            os.close(self.scratch)
            self.spawner.forget(self.number)


def count_used_bytes(scratch: int) -> int:
    """What it takes of a disk limit: its content, or its files at the price of one where that is more."""
    status = os.statvfs(scratch)
    content = (status.f_blocks - status.f_bfree) * status.f_frsize
    return max(content, (status.f_files - status.f_ffree) * INODE_BYTES)


@dataclass
class LocalSnapshot:
    """Layers, and what was written over them, lowest first."""

    spec: SandboxSpec
    frozen: tuple[Frozen, ...] = ()
    is_dropped: bool = field(default=False, init=False)

    def copy(self) -> "LocalSnapshot":
        """Another holder of the same files."""
        for each in self.frozen:
            each.hold()
        return LocalSnapshot(self.spec, self.frozen)

    def drop(self) -> None:
        """Let go of it; sandboxes that were started from it live on. Safe to call twice."""
        if not self.is_dropped:
            self.is_dropped = True
            for each in self.frozen:
                each.release()
