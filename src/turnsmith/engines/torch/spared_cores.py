"""Cores that an engine leaves to sandboxes and grading: none while no other process computes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

STAT = Path("/proc/stat")
INTERVAL_S = 1.0
"""Seconds between two measurements."""
BUSY_CORES = 0.5
"""Number of cores on which other processes must compute so that the engine leaves them its spared cores."""


@dataclass
class OtherLoad:
    """Measurement of the cores on which other processes of the machine compute."""

    num_cores: float = BUSY_CORES
    """Mean number of these cores in the last interval."""
    before: tuple[float, float, float] = field(default_factory=lambda: read_times())

    @property
    def is_high(self) -> bool:
        """Measure again if the interval is over. Return True if other processes need cores, or if nothing can be measured."""
        if time.monotonic() - self.before[0] >= INTERVAL_S:
            now = read_times()
            wall_s, busy_s, own_s = (new - old for new, old in zip(now, self.before, strict=True))
            self.num_cores, self.before = (busy_s - own_s) / wall_s, now
        return self.num_cores >= BUSY_CORES or not STAT.exists()


def read_times() -> tuple[float, float, float]:
    """Return the wall clock, the computing time of all processes, and that of this process, in seconds."""
    times = os.times()
    return time.monotonic(), read_busy_s(), times.user + times.system


def read_busy_s() -> float:
    """Return the time for which all cores together have computed since the start of the machine, in seconds; 0 if unknown."""
    try:
        _, user, nice, system, *_ = STAT.read_text().partition("\n")[0].split()
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def sparing(num_cores: int) -> Iterator[None]:
    """Reduce torch's threads by `num_cores` in a `with` block, since threads without a free core slow down the others."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(max(1, num_threads - num_cores))
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
