"""Changes that remain between a file and its fixed form, as ranges of lines to replace."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from turnsmith.agent.expert.code_map import Definition, find_enclosing, list_definitions

MERGED_GAP = 3
"""Number of equal lines between two changes up to which they are made by one edit."""


@dataclass(frozen=True)
class LineChange:
    """Replacement of the lines `first` to `last` of a file, counted from 1, by other lines."""

    path: str
    first: int
    last: int
    lines: tuple[str, ...]
    enclosing: Definition | None = None
    """Innermost definition around the lines; None at the top level of a file."""

    @property
    def first_needed(self) -> int:
        """Return the first line to read before the edit: that of the enclosing definition, or the first line of the file."""
        return self.enclosing.first if self.enclosing else 1


def find_change(path: str, before: str, after: str, short_body: int) -> LineChange | None:
    """Find the first change from `before` to `after`, or None if they are equal.

    In a function whose body has at most `short_body` lines, the change rewrites the whole body.
    """
    old, new = before.split("\n"), after.split("\n")
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [(begin, end) for tag, begin, end, _, _ in opcodes if tag != "equal"]
    if not changed:
        return None
    begin, end = changed[0]
    for following, ending in changed[1:]:
        if following - end > MERGED_GAP:
            break
        end = ending
    enclosing = find_enclosing(list_definitions(path, before), min(begin + 1, len(old)))
    begin, end = widen(begin, end, find_body(before, enclosing), short_body, len(old))
    first, last = (
        position + count_shift(opcodes, position, is_end=is_end) for position, is_end in ((begin, False), (end, True))
    )
    return LineChange(path, begin + 1, end, tuple(new[first:last]), enclosing)


def widen(begin: int, end: int, body: tuple[int, int] | None, short_body: int, num_lines: int) -> tuple[int, int]:
    """Widen a range of lines to a short body around it; give an empty range one line, the one before."""
    if body and body[0] <= begin and end <= body[1] and body[1] - body[0] <= short_body:
        return body
    if begin < end:
        return begin, end
    return (begin - 1, end) if begin else (begin, min(end + 1, num_lines))


def count_shift(opcodes: Sequence[tuple[str, int, int, int, int]], position: int, *, is_end: bool) -> int:
    """Count the lines by which changes before a position move it. An insertion at the position itself counts for an end."""
    return sum(
        (new_end - new_begin) - (old_end - old_begin)
        for tag, old_begin, old_end, new_begin, new_end in opcodes
        if tag != "equal" and (old_end <= position if is_end else old_end <= position and old_begin < position)
    )


def find_body(source: str, definition: Definition | None) -> tuple[int, int] | None:
    """Find the statements of a function after its docstring, as a half-open range of line indices from 0; None for others."""
    if not definition or definition.kind != "def":
        return None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno == definition.first:
            statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
            return (statements[0].lineno - 1, definition.last) if statements else None
    return None
