"""The command in a turn: exactly one fenced `command` block (paper §3.3, App. E).

The rule is the one of CommonMark, for one info string only:

- a block opens with a line that is three or more backticks and the word `command`, from the first column;
- it closes with the first later line that is as many backticks and nothing else;
- everything between is the command, as it stands.

So a heredoc whose text holds a line of three backticks needs a block fenced with four. Other fenced blocks are reasoning.
"""

import re
from enum import Enum

_OPENING = re.compile(r"^(?P<fence>`{3,})command[ \t\r]*$", re.MULTILINE)


class FormatError(Enum):
    """Why no command can be taken from a turn; the two named by the paper (App. E)."""

    NO_COMMAND = "no_command"
    """No block, an empty block, or a block that is never closed."""
    MULTIPLE_COMMANDS = "multiple_commands"
    """More than one block."""


def parse_turn(text: str) -> str | FormatError:
    """The one command of a turn, or the format error that it made."""
    blocks = find_blocks(text)
    if len(blocks) > 1:
        return FormatError.MULTIPLE_COMMANDS
    if not blocks or blocks[0] is None or not blocks[0].strip():
        return FormatError.NO_COMMAND
    return blocks[0]


def find_blocks(text: str) -> list[str | None]:
    """Bodies of all command blocks in order; None for a last block that is never closed."""
    blocks: list[str | None] = []
    position = 0
    while opening := _OPENING.search(text, position):
        closing = re.compile(rf"^{opening['fence']}[ \t\r]*$", re.MULTILINE).search(text, opening.end())
        if closing is None:
            return [*blocks, None]
        blocks.append(text[opening.end() + 1 : max(closing.start() - 1, opening.end() + 1)])
        position = closing.end()
    return blocks
