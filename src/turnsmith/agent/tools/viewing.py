"""`open`, `goto`, `scroll_up`, `scroll_down`: the window on the open file."""

import re
from dataclasses import replace

from turnsmith.agent.tools.base import Call, Kit, Reply, Tool, ToolError, Workspace
from turnsmith.agent.tools.files import TextFile, open_path, read_file
from turnsmith.agent.tools.window import line_into_view, render_window, scrolled


async def open_file(call: Call, workspace: Workspace, kit: Kit) -> Reply:
    """Open a file at its top or at a line; without a file, show the open one again."""
    if not call.arguments:
        return show(await read_file(open_path(workspace), kit.sandbox), workspace.first_line, workspace, kit)
    file = await read_file(workspace.absolute(call.arguments[0]), kit.sandbox)
    if len(call.arguments) == 1:
        return show(file, 1, workspace, kit)
    return _open_at(file, parse_line_number(call.arguments[1]), workspace, kit)


def _open_at(file: TextFile, line: int, workspace: Workspace, kit: Kit) -> Reply:
    """A line past the end opens the end and says so."""
    num_lines = len(file.lines)
    reply = show(file, line_into_view(line, num_lines, kit.window_lines), workspace, kit)
    if line <= num_lines:
        return reply
    return replace(reply, text=f"The file has {num_lines} lines, so line {line} is past its end.\n{reply.text}")


async def goto_line(call: Call, workspace: Workspace, kit: Kit) -> Reply:
    """Move the window to a line of the open file."""
    file = await read_file(open_path(workspace), kit.sandbox)
    line = parse_line_number(call.arguments[0])
    check_inside(line, file)
    return show(file, line_into_view(line, len(file.lines), kit.window_lines), workspace, kit)


async def scroll_down(call: Call, workspace: Workspace, kit: Kit) -> Reply:
    """Move the window down."""
    return await _scroll(1, workspace, kit)


async def scroll_up(call: Call, workspace: Workspace, kit: Kit) -> Reply:
    """Move the window up."""
    return await _scroll(-1, workspace, kit)


async def _scroll(direction: int, workspace: Workspace, kit: Kit) -> Reply:
    file = await read_file(open_path(workspace), kit.sandbox)
    first_line = scrolled(workspace.first_line, direction, len(file.lines), kit.window_lines)
    return show(file, first_line, workspace, kit)


def show(file: TextFile, first_line: int, workspace: Workspace, kit: Kit) -> Reply:
    """The window at a line; the file becomes the open one."""
    text = render_window(file, first_line, kit.window_lines)
    return Reply(text, replace(workspace, file=file.path, first_line=first_line))


def parse_line_number(text: str) -> int:
    """A line number from 1. Raises ToolError."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ToolError(f"a line number is a whole number from 1, not {text!r}")
    return int(text)


def check_inside(line: int, file: TextFile) -> None:
    """Raise ToolError where the file has no such line."""
    if line > len(file.lines):
        raise ToolError(f"line {line} does not exist: {file.path} has {len(file.lines)} lines")


OPEN = Tool(
    "open [FILE] [LINE_NUMBER]",
    "Open FILE and show its first lines, or the lines around LINE_NUMBER. Without FILE, show the open file again.",
    open_file,
    num_arguments=(0, 2),
)
GOTO = Tool("goto LINE_NUMBER", "Move the window of the open file to LINE_NUMBER.", goto_line, num_arguments=(1, 1))
SCROLL_UP = Tool("scroll_up", "Move the window of the open file up and show it.", scroll_up)
SCROLL_DOWN = Tool("scroll_down", "Move the window of the open file down and show it.", scroll_down)
