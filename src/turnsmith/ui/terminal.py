"""Safe terminal output: control sequences in agents' texts are printed as visible characters."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

EXIT_UNREAD = 128 + signal.SIGPIPE


class Output(io.TextIOWrapper):
    """Text stream that exits the program if its reader has closed the pipe, as in `turnsmith show … | head -1`."""

    def write(self, text: str) -> int:
        """Write text; exit if the reader has closed the pipe."""
        with self._ending_unread():
            return super().write(text)

    def flush(self) -> None:
        """Flush the stream; exit if the reader has closed the pipe."""
        with self._ending_unread():
            super().flush()

    @contextmanager
    def _ending_unread(self) -> Iterator[None]:
        """Exit on a broken pipe. Later output goes to /dev/null, so that Python's flush at exit does not fail again."""
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise SystemExit(EXIT_UNREAD) from None


@contextmanager
def printing() -> Iterator[None]:
    """Exit silently on a broken pipe, and print `?` for characters that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None if it is closed
            buffering = stream.line_buffering, stream.write_through
            setattr(sys, name, Output(stream.buffer, stream.encoding, "replace", None, *buffering))
    try:
        yield
    finally:
        if sys.stdout:
            sys.stdout.flush()


def make_console(*, stderr: bool = False) -> Console:
    """Make a rich console without markup, emoji codes and highlighting; in a pipe it has COLUMNS or 80 columns."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def to_printable(text: str) -> str:
    """Escape control characters except line ends and tabs: an escape sequence becomes visible text, `\\x1b[2J`."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def to_line(text: str) -> str:
    """Escape control characters, and replace each run of white space, line ends included, by one space."""
    return " ".join(to_printable(text).split())
