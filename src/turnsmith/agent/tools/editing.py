"""Tools `create`, `edit` and `replace`, which change files exactly as the agent says.

As in the paper, no linter runs, so edits are neither corrected nor reverted.
"""

import re
from itertools import accumulate

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolError, ToolResult
from turnsmith.agent.tools.files import TextFile, exists, open_path, read_file, write_file
from turnsmith.agent.tools.viewing import check_inside, line_into_view, parse_line_number, show
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES

UPDATED = "File updated. Review the changes (indentation, duplicate lines) and edit again if needed."
MAX_LISTED_LINES = 10


async def create(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Create a file with one empty line and open it. Raises ToolError if the file exists."""
    path = session.absolute(call.arguments[0])
    if await exists(path, context.sandbox):
        raise ToolError(f"{path} exists already: use `open` to see it")
    file = TextFile(path, "\n")
    await write_file(file, context.sandbox)
    return show(file, 1, session, context)


async def edit(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Replace a range of lines in the open file, or in the file that `--file` names; the edited file becomes the open file."""
    path = session.absolute(call.options["--file"]) if "--file" in call.options else open_path(session)
    file = await read_file(path, context.sandbox)
    first, last = parse_range(call.arguments, file)
    edited = file.with_lines(first, last, replacement_lines(call))
    await write_file(edited, context.sandbox)
    return _show_change(edited, first, UPDATED, session, context)


async def replace_text(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """Replace the only occurrence of a text in the open file, or all occurrences with `--replace-all`."""
    file = await read_file(open_path(session), context.sandbox)
    search, new = call.arguments
    if not search:
        raise ToolError("the text to replace is empty")
    count = file.text.count(search)
    if not count:
        raise ToolError(f"the text to replace does not occur in {file.path}")
    lines = first_lines(search, file)
    if "--replace-all" not in call.options and count > 1:
        listed = ", ".join(map(str, lines)) + ", …" * (count > len(lines))
        raise ToolError(
            f"the text to replace occurs {count} times in {file.path} (lines {listed}): "
            "give more of the text around it, or use --replace-all"
        )
    # checked before the text is built: one call can ask for terabytes
    if len(file.text) + count * (len(new) - len(search)) > MAX_FILE_BYTES:
        raise ToolError(f"{file.path} would be larger than {MAX_FILE_BYTES >> 20} MB: nothing was replaced")
    edited = TextFile(file.path, file.text.replace(search, new))
    await write_file(edited, context.sandbox)
    return _show_change(edited, lines[0], f"{count} replaced. {UPDATED}", session, context)


def parse_range(arguments: list[str], file: TextFile) -> tuple[int, int]:
    """Parse a line range `START:END`, which must lie inside the file. Raises ToolError."""
    match = re.fullmatch(r"([^:]+):([^:]+)", arguments[0]) if arguments else None
    if not match:
        raise ToolError(f"the lines to replace are written START:END, for example 3:5, not {' '.join(arguments[:1])!r}")
    first, last = parse_line_number(match[1]), parse_line_number(match[2])
    if first > last:
        raise ToolError(f"the range {first}:{last} ends before it starts")
    check_inside(last, file)
    return first, last


def replacement_lines(call: Call) -> list[str]:
    """Return the new lines of an `edit` call. An empty text deletes the range. One newline at the text's end is ignored."""
    text = call.heredoc if call.heredoc is not None else "".join(call.arguments[1:])
    return text.removesuffix("\n").split("\n") if text else []


def _show_change(file: TextFile, line: int, message: str, session: Session, context: ToolContext) -> ToolResult:
    """Return a result with a message and the window at the changed line."""
    first_line = line_into_view(min(line, len(file.lines)), len(file.lines), context.window_lines)
    shown = show(file, first_line, session, context)
    return ToolResult(f"{message}\n{shown.text}", shown.session)


def first_lines(search: str, file: TextFile) -> list[int]:
    """Return the line numbers of the first `MAX_LISTED_LINES` occurrences of a text in a file."""
    before, *between = file.text.split(search, MAX_LISTED_LINES)[:-1]
    steps = (search.count("\n") + gap.count("\n") for gap in between)
    return list(accumulate(steps, initial=1 + before.count("\n")))


CREATE = Tool(
    "create FILENAME", "Create the file FILENAME with one empty line and open it.", create, num_arguments=(1, 1)
)
EDIT = Tool(
    "edit LINE_RANGE [REPLACEMENT_TEXT] [--file PATH]",
    """Replace the lines START:END (LINE_RANGE, both inclusive) of the open file, or of PATH, by the text, exactly as given.
No text deletes the lines. For several lines, use a heredoc:
edit 1:1 << 'EOF'
first line
second line
EOF""",
    edit,
    num_arguments=(1, 2),
    valued=("--file",),
    heredoc=True,
)
REPLACE = Tool(
    "replace SEARCH REPLACE [--replace-all]",
    """Replace the text SEARCH by REPLACE in the open file. SEARCH must occur exactly once, unless --replace-all is given.
Quote both, for example: replace "a + b" "a - b\"""",
    replace_text,
    num_arguments=(2, 2),
    switches=("--replace-all",),
)
