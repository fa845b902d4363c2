"""Parser of commands: a turn must have exactly one fenced `command` block (paper §3.3, App. E).

Blocks follow the rules of CommonMark for fenced code:

- a block opens with a line of three or more backticks and the word `command`, from the first column;
- it closes with the first later line of as many backticks and nothing else;
- everything between is the command, unchanged.

A heredoc that contains a line of three backticks needs a fence of four. Other fenced blocks are reasoning.
"""

import re
from enum import Enum

_OPENING = re.compile(r"^(?P<fence>`{3,})command[ \t\r]*$", re.MULTILINE)


class FormatError(Enum):
    """Format error of a turn. The paper has the same two errors (App. E)."""

    NO_COMMAND = "no_command"
    """The turn has no command block, or an empty or unclosed one."""
    MULTIPLE_COMMANDS = "multiple_commands"
    """The turn has more than one command block."""


def parse_turn(text: str) -> str | FormatError:
    """Return the command of a turn, or the turn's format error."""
    blocks = find_blocks(text)
    if len(blocks) > 1:
        return FormatError.MULTIPLE_COMMANDS
    if not blocks or blocks[0] is None or not blocks[0].strip():
        return FormatError.NO_COMMAND
    return blocks[0]


def find_blocks(text: str) -> list[str | None]:
    """Return the bodies of all command blocks in a turn, in order; None for an unclosed last block."""
    blocks: list[str | None] = []
    position = 0
    while opening := _OPENING.search(text, position):
        closing = re.compile(rf"^{opening['fence']}[ \t\r]*$", re.MULTILINE).search(text, opening.end())
        if closing is None:
            return [*blocks, None]
        blocks.append(text[opening.end() + 1 : max(closing.start() - 1, opening.end() + 1)])
        position = closing.end()
    return blocks
