"""Tool `search_file`, which lists the lines of one file that contain a text.

The search term is plain text and no regular expression. So `total(` needs no escape, and no slow expression can block the
host. The agent can search for regular expressions with `grep -nE` in the shell.
"""

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolError, ToolResult
from turnsmith.agent.tools.files import open_path, read_file
from turnsmith.agent.tools.viewing import number_line

MAX_HITS = 100


async def search_file(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """List number and content of each line with the search term. Raises ToolError if there are more than `MAX_HITS` lines."""
    term = call.arguments[0]
    path = session.absolute(call.arguments[1]) if len(call.arguments) > 1 else open_path(session)
    file = await read_file(path, context.sandbox)
    if not term:
        raise ToolError("the search term is empty")
    numbers = [number for number, line in enumerate(file.lines, 1) if term in line]
    if len(numbers) > MAX_HITS:
        raise ToolError(
            f"{len(numbers)} lines of {path} contain {term!r}, more than {MAX_HITS}: search for a longer text"
        )
    if not numbers:
        return ToolResult(f"No line of {path} contains {term!r} (plain text; for patterns use `grep -nE`).", session, 1)
    hits = [number_line(number, file.lines[number - 1]) for number in numbers]
    return ToolResult("\n".join([f"[Lines with {term!r} in {path}: {len(hits)}]", *hits]), session)


SEARCH_FILE = Tool(
    "search_file SEARCH_TERM [FILE]",
    "Show the lines of FILE, or of the open file, that contain the text SEARCH_TERM.",
    search_file,
    num_arguments=(1, 2),
)
