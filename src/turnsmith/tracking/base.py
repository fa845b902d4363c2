"""What a long job tells whoever watches: what it is at, how far it is, what it found. Others decide how that looks."""

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """A watcher of one run."""

    def begin(self, label: str, total: int) -> None:
        """A piece of work of `total` units starts."""

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        """Some units are done; `note` is a short running remark such as `resolved 12/40`."""

    def end(self, label: str) -> None:
        """The piece of work is over."""

    def say(self, text: str) -> None:
        """One line worth keeping."""


class Silence:
    """Nobody watches."""

    def begin(self, label: str, total: int) -> None: ...

    def advance(self, label: str, num: int = 1, note: str = "") -> None: ...

    def end(self, label: str) -> None: ...

    def say(self, text: str) -> None: ...


class Tracker(Protocol):
    """Keeps the metrics of one run. Made by `Tracker(folder, name, config)`, again after each resume:

    a folder of its own in the run folder, the name of the run, and the run's configuration by dotted keys.
    """

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        """Numbers of one moment: `step` counts iterations from the base on, `when_s` is in seconds since 1970."""

    def flush(self) -> None:
        """What was logged is safe from a kill."""

    def close(self) -> None:
        """Nothing more will come from this process."""
