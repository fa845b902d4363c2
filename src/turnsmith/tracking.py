"""What a long job tells whoever watches: what it is at, how far it is, what it found. Faces decide how that looks."""

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
