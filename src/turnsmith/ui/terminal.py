"""The terminal. Whatever an agent wrote reaches it as plain visible characters, never as commands to it."""

import sys

from rich.console import Console

PIPE_WIDTH = 160
"""Columns where there is no terminal that has a width."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def to_printable(text: str) -> str:
    """Text that cannot move the cursor, colour or rewrite the screen: `a\\x1b[2Jb` comes out spelled, line ends and tabs stay."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else _spell(character) for character in text
    )


def to_line(text: str) -> str:
    """The same in one line."""
    return " ".join(to_printable(text).split())


def _spell(character: str) -> str:
    return character.encode("unicode_escape").decode()
