"""The terminal. Whatever an agent wrote reaches it as plain visible characters, never as commands to it."""

import io
import sys

from rich.console import Console


def replace_unprintable() -> None:
    """Print `?` in place of each character that the encoding of the output lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors="replace")


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights. A pipe has COLUMNS columns, or 80."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def to_printable(text: str) -> str:
    """Text that cannot move the cursor, colour or rewrite the screen: `a\\x1b[2Jb` comes out spelled, line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def to_line(text: str) -> str:
    """The same in one line."""
    return " ".join(to_printable(text).split())
