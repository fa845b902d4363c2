"""The terminal. Whatever an agent wrote reaches it as plain visible characters, never as commands to it."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

EXIT_UNREAD = 128 + signal.SIGPIPE


class Output(io.TextIOWrapper):
    """A stream that ends the program, as SIGPIPE does elsewhere, once its reader has gone: `turnsmith show … | head -1`."""

    def write(self, text: str) -> int:
        """Write, or end."""
        with self._ending_unread():
            return super().write(text)

    def flush(self) -> None:
        """Flush, or end."""
        with self._ending_unread():
            super().flush()

    @contextmanager
    def _ending_unread(self) -> Iterator[None]:
        """Exit at a broken pipe. What is left in the buffer goes nowhere, since Python flushes it once more."""
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise SystemExit(EXIT_UNREAD) from None


@contextmanager
def printing() -> Iterator[None]:
    """End the program without a word where nobody reads it; print `?` for each character that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            buffering = stream.line_buffering, stream.write_through
            setattr(sys, name, Output(stream.buffer, stream.encoding, "replace", None, *buffering))
    try:
        yield
    finally:
        if sys.stdout:
            sys.stdout.flush()


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights. A pipe has COLUMNS columns, or 80."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def to_printable(text: str) -> str:
    """Text that cannot move the cursor, colour or rewrite the screen: `a\\x1b[2Jb` comes out spelled, line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def to_line(text: str) -> str:
    """The same in one line."""
    return " ".join(to_printable(text).split())
