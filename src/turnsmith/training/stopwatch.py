"""Stopwatch for parts of an optimizer step, forward and backward."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Mark = float | torch.cuda.Event
"""Point in time: seconds on a CPU, an event of the current stream on a GPU."""
T = TypeVar("T", Tensor, list[Tensor])


@dataclass
class Interval:
    """Time interval that belongs to a part of a computation."""

    part: str
    start: Mark | None = None
    end: Mark | None = None

    def measure_s(self) -> float:
        """Return the seconds of the interval; 0 if it did not start or end. Waits for a GPU."""
        if isinstance(self.start, torch.cuda.Event) and isinstance(self.end, torch.cuda.Event):
            self.end.synchronize()
            return self.start.elapsed_time(self.end) / 1_000
        is_measured = isinstance(self.start, float) and isinstance(self.end, float)
        return self.end - self.start if is_measured else 0.0  # type: ignore[operator]


class Stopwatch:
    """Seconds spent in named parts of a computation.

    On a GPU the stopwatch records events, and waits for the GPU only in `read`. Parts may overlap: `update` contains others.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._intervals: list[Interval] = []

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time of the `with` block to a part."""
        interval = self._open(part)
        interval.start = self._mark()
        yield
        interval.end = self._mark()

    def measure_both_ways(self, part: str, function: Callable[..., T], *inputs: Tensor) -> T:
        """Call `function(*inputs)`, and add its time and that of its backward pass to a part.

        The backward pass lasts from the first operation that made an output to the first one that made an input.
        """
        with self.measure(part):
            outputs = function(*inputs)
        interval = self._open(part)

        def start(gradients: Any) -> None:
            interval.start = interval.start or self._mark()

        def end(gradients: Any) -> None:
            interval.end = interval.end or self._mark()

        _register(start, outputs if isinstance(outputs, list) else [outputs])
        _register(end, inputs)
        return outputs

    def _open(self, part: str) -> Interval:
        self._intervals.append(Interval(part))
        return self._intervals[-1]

    def _mark(self) -> Mark:
        if not self._is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self) -> dict[str, float]:
        """Return the seconds of each part since the last call."""
        seconds: dict[str, float] = defaultdict(float)
        intervals, self._intervals = self._intervals, []
        for interval in intervals:
            seconds[interval.part] += interval.measure_s()
        return dict(seconds)


def _register(hook: Callable[[Any], None], tensors: list[Tensor] | tuple[Tensor, ...]) -> None:
    """Call the hook before autograd runs the operation that made any of the tensors."""
    for tensor in tensors:
        if tensor.grad_fn:
            tensor.grad_fn.register_prehook(hook)
