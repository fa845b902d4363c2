"""Speeds of processors for which a run can be planned."""

import time
from dataclasses import dataclass

import numpy as np

from turnsmith.errors import UsageError

GIGA, TERA = 1e9, 1e12
CPU = "cpu"


@dataclass(frozen=True)
class Hardware:
    """Peak figures of one processor, by its vendor's data sheet. Speeds in practice are shares of them (`rates`)."""

    name: str
    flops: float
    """Floating-point operations per second of dense matrix products: bfloat16 on GPUs, float32 on CPUs."""
    bandwidth: float
    """Bytes per second between processor and its memory."""
    memory: float
    """Bytes of its memory; 0 if it is not limited by the processor, as on CPUs."""
    network: float
    """Bytes per second to other machines, per processor."""
    source: str


TABLE = {
    each.name: each
    for each in (
        Hardware("h100", 989 * TERA, 3.35e12, 80 * GIGA, 50 * GIGA, "NVIDIA H100 SXM data sheet"),
        Hardware("h200", 989 * TERA, 4.8e12, 141 * GIGA, 50 * GIGA, "NVIDIA H200 data sheet"),
        Hardware("b200", 2_250 * TERA, 8.0e12, 180 * GIGA, 100 * GIGA, "NVIDIA HGX B200 data sheet"),
        Hardware("a100", 312 * TERA, 2.04e12, 80 * GIGA, 25 * GIGA, "NVIDIA A100 80GB SXM data sheet"),
        Hardware("4090", 165 * TERA, 1.01e12, 24 * GIGA, 3 * GIGA, "NVIDIA RTX 4090 data sheet"),
    )
}
"""Name → figures of a GPU. The network is one port per GPU at 400 Gbit/s (H100, H200), 800 (B200), 200 (A100) or 25 (4090)."""


def find_hardware(name: str) -> Hardware:
    """Find the figures of a GPU, or measure this machine's CPU if the name is `cpu`. Raises UsageError."""
    if name == CPU:
        return measure_cpu()
    if name not in TABLE:
        raise UsageError(f"--hardware {name}: there are no figures for it; choose {', '.join([*TABLE, CPU])}")
    return TABLE[name]


def measure_cpu() -> Hardware:
    """Measure matrix products and copies of this machine's CPU with numpy. It takes about a second."""
    matrix = np.ones((1_024, 1_024), np.float32)
    flops = 2 * 1_024**3 / time_best(lambda: matrix @ matrix)
    source = np.ones(2**25, np.float32)
    target = np.empty_like(source)
    bandwidth = 2 * source.nbytes / time_best(lambda: np.copyto(target, source))
    return Hardware(
        CPU, flops, bandwidth, 0.0, 1.25 * GIGA, "measured on this machine with numpy; network assumed 10 Gbit/s"
    )


def time_best(work: object) -> float:
    """Return the seconds of the fastest of five calls."""
    assert callable(work)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
