"""What a run tells others: progress to whoever watches, and metrics to the services that keep them.

A tracker is one small class in a file of its own: `tensorboard`, `wandb`, `mlflow`, or anybody's by import path.
"""

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """A watcher of one run: what it is at, how far it is, what it found. Others decide how that looks."""

    def begin(self, label: str, total: int | None, num_done: int = 0) -> None:
        """Begin a piece of work of `total` units, of which some were done before.

        None where nobody knows how many, so that no time left is shown.
        """

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        """Some units are done; `note` is a short running remark such as `resolved 12/40`."""

    def end(self, label: str) -> None:
        """The piece of work is over."""

    def say(self, text: str) -> None:
        """One line worth keeping."""


class Tracker(Protocol):
    """Keeps the metrics of one run. Made by `Tracker(folder, name, config)`, again after each resume:

    a folder of its own in the run folder, the name of the run, and the run's configuration by dotted keys.
    """

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        """Numbers of one moment, safe from a kill: `step` counts iterations from the base on, `when_s` seconds since 1970."""

    def close(self) -> None:
        """Nothing more will come from this process."""
