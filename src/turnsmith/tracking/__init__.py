"""Interfaces of progress and metric trackers, and one module for each tracking service.

A run reports its progress to a `Progress` and its metrics to every `Tracker`. `loops` runs work on many items and shows
progress. `feed` sends metrics of a run folder to trackers: `tensorboard`, `wandb`, `mlflow`, or any class by import
path. The package does not know how metrics are computed or shown.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Standing:
    """Standing of a run after an RL iteration."""

    resolved_rate: float
    """Share of the iteration's attempts that resolved their task."""
    gain: float | None
    """Difference of this rate from the iteration before; None for the first iteration of a stage."""
    tokens_per_s: float | None
    """Sampled tokens per second of collection; None if all attempts were made before a resume."""
    left_s: float | None
    """Estimated seconds until the run ends; None if unknown."""


class Work(Protocol):
    """Receiver of progress reports on one piece of work."""

    def advance(self, num: int = 1, note: str = "") -> None:
        """Report `num` units as done; `note` is a short text such as `resolved 12/40`."""


class Progress(Protocol):
    """Receiver of one run's progress and messages, such as a terminal or a log file."""

    def work(self, label: str, total: int | None, num_done: int = 0) -> AbstractContextManager[Work]:
        """Show a piece of work during a block: `total` units, `num_done` of which are done already.

        A `total` of None means an unknown number, and hides the remaining time.
        """

    def log(self, text: str) -> None:
        """Show a line of text, and keep it visible."""

    def show_standing(self, standing: Standing) -> None:
        """Show the standing of the run until the next one; a display of plain lines leaves it out."""


class Tracker(Protocol):
    """Metric tracker of one run, created by `Tracker(folder, name, config)` at start and at each resume.

    `folder` is a folder for this tracker inside the run folder, `name` the run's name, `config` the configuration by dotted keys.
    """

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        """Store metrics at once, so that a kill loses none. `step` counts iterations from 0; `when_s` is a Unix time."""

    def close(self) -> None:
        """Send or write all remaining metrics, and close."""
