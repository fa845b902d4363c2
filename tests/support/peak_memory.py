"""Measurement of the memory that torch allocates on the CPU: exact, and independent of the machine and other processes."""

import gc
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile


def peak_bytes(function: Callable[[], Any]) -> int:
    """Call a function; return the largest sum of bytes that torch's CPU allocator held at once, beyond those held before.

    Garbage of earlier tests is freed first, since its release during the call would lower the sum.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        function()
    held = peak = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak
