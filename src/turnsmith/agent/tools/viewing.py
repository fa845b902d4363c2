"""Tools `open`, `goto`, `scroll_up` and `scroll_down`, which move a window over the open file (paper §3.4)."""

import re
from dataclasses import replace
from functools import partial

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolError, ToolResult
from turnsmith.agent.tools.files import TextFile, open_path, read_file

OVERLAP = 2
"""Number of lines that two neighbouring windows have in common."""


async def open_file(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Open a file at its first line or at a given line; without arguments, show the open file again."""
    if not call.arguments:
        return show(await read_file(open_path(session), context.sandbox), session.first_line, session, context)
    file = await read_file(session.absolute(call.arguments[0]), context.sandbox)
    if len(call.arguments) == 1:
        return show(file, 1, session, context)
    line, num_lines = parse_line_number(call.arguments[1]), len(file.lines)
    result = show(file, line_into_view(line, num_lines, context.window_lines), session, context)
    if line <= num_lines:
        return result
    return replace(result, text=f"The file has {num_lines} lines, so line {line} is past its end.\n{result.text}")


async def goto_line(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Move the window to a line of the open file."""
    file = await read_file(open_path(session), context.sandbox)
    line = parse_line_number(call.arguments[0])
    check_inside(line, file)
    return show(file, line_into_view(line, len(file.lines), context.window_lines), session, context)


async def scroll(direction: int, call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Move the window on the open file down (direction 1) or up (−1)."""
    file = await read_file(open_path(session), context.sandbox)
    first_line = scrolled(session.first_line, direction, len(file.lines), context.window_lines)
    return show(file, first_line, session, context)


def show(file: TextFile, first_line: int, session: Session, context: ToolContext) -> ToolResult:
    """Open a file, and return a result with the window at a line."""
    text = render_window(file, first_line, context.window_lines)
    return ToolResult(text, replace(session, file=file.path, first_line=first_line))


def parse_line_number(text: str) -> int:
    """Parse a line number, at least 1. Raises ToolError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ToolError(f"a line number is a whole number from 1, not {text!r}")
    return int(text)


def check_inside(line: int, file: TextFile) -> None:
    """Raise ToolError if the file has no line of that number."""
    if line > len(file.lines):
        raise ToolError(f"line {line} does not exist: {file.path} has {len(file.lines)} lines")


def clamp(first_line: int, num_lines: int, window_lines: int) -> int:
    """Return `first_line`, changed so that the whole window lies inside the file."""
    return max(1, min(first_line, num_lines - window_lines + 1))


def line_into_view(line: int, num_lines: int, window_lines: int) -> int:
    """Return the window's first line so that `line` appears about one sixth of the window below the top."""
    return clamp(line - window_lines // 6, num_lines, window_lines)


def scrolled(first_line: int, direction: int, num_lines: int, window_lines: int) -> int:
    """Return the window's first line after scrolling one window down (direction 1) or up (−1)."""
    return clamp(first_line + direction * max(1, window_lines - OVERLAP), num_lines, window_lines)


def render_window(file: TextFile, first_line: int, window_lines: int) -> str:
    """Render the window on a file: header, numbered lines, and the counts of lines above and below."""
    lines = file.lines
    first_line = clamp(first_line, len(lines), window_lines)
    last_line = min(first_line + window_lines - 1, len(lines))
    rows = [f"[File: {file.path} ({len(lines)} lines total)]"]
    if first_line > 1:
        rows.append(f"({first_line - 1} more lines above)")
    rows.extend(number_line(number, lines[number - 1]) for number in range(first_line, last_line + 1))
    if last_line < len(lines):
        rows.append(f"({len(lines) - last_line} more lines below)")
    return "\n".join(rows)


def number_line(number: int, line: str) -> str:
    """Format a file's line as `N:content`, without a trailing carriage return."""
    return f"{number}:" + line.removesuffix("\r")


OPEN = Tool(
    "open [FILE] [LINE_NUMBER]",
    "Open FILE and show its first lines, or the lines around LINE_NUMBER. Without FILE, show the open file again.",
    open_file,
    num_arguments=(0, 2),
)
GOTO = Tool("goto LINE_NUMBER", "Move the window of the open file to LINE_NUMBER.", goto_line, num_arguments=(1, 1))
SCROLL_UP = Tool("scroll_up", "Move the window of the open file up and show it.", partial(scroll, -1))
SCROLL_DOWN = Tool("scroll_down", "Move the window of the open file down and show it.", partial(scroll, 1))
