"""The table of tools, and the one way in: `act`."""

from dataclasses import replace

from turnsmith.agent.tools.base import Kit, Reply, Tool, ToolError, Workspace, legible
from turnsmith.agent.tools.command_line import first_word, read_call
from turnsmith.agent.tools.editing import CREATE, EDIT, REPLACE
from turnsmith.agent.tools.searching import SEARCH_FILE
from turnsmith.agent.tools.shell import run_shell
from turnsmith.agent.tools.submission import SUBMIT
from turnsmith.agent.tools.viewing import GOTO, OPEN, SCROLL_DOWN, SCROLL_UP

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (CREATE, EDIT, GOTO, OPEN, REPLACE, SCROLL_DOWN, SCROLL_UP, SEARCH_FILE, SUBMIT)
}


async def act(command: str, workspace: Workspace, kit: Kit) -> Reply:
    """Run one command: its first word names a tool, and anything else is for the shell.

    Wrong use is an answer, not an exception. Raises SandboxError.
    """
    try:
        tool = TOOLS.get(first_word(command))
        reply = await (use(tool, command, workspace, kit) if tool else run_shell(command, workspace, kit, TOOLS))
    except ToolError as error:
        reply = Reply(f"Error: {error}", workspace, exit_code=1)
    return replace(reply, text=legible(reply.text))


async def use(tool: Tool, command: str, workspace: Workspace, kit: Kit) -> Reply:
    """Call a tool, or print its help."""
    call = read_call(tool, command)
    if "--help" in call.options:
        return Reply(tool.help, workspace)
    return await tool.run(call, workspace, kit)
