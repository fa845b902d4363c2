"""Shell commands of the agent in the sandbox. The working directory is kept from one command to the next; variables are not."""

import re
from collections.abc import Iterable
from dataclasses import replace

from turnsmith.agent.tools.base import Session, ToolContext, ToolError, ToolResult
from turnsmith.agent.tools.command_line import first_word
from turnsmith.types import ExecResult

EDITORS = ("vi", "vim", "nvim", "nano", "pico", "emacs", "ed")
PAGERS = ("less", "more", "most")
SCREENS = ("top", "htop", "watch", "gdb", "pdb", "ipython", "jupyter", "ssh", "telnet", "tmux", "screen")
INTERACTIVE = frozenset(EDITORS + PAGERS + SCREENS)
"""Names of interactive programs; commands that call one are refused, since it would wait for input."""
INTERPRETERS = frozenset(("python", "python3", "node", "irb", "bash", "sh", "zsh", "psql", "mysql", "sqlite3", "bc"))
"""Names of interpreters; a command without arguments for one is refused, since it would wait for input."""
_FOLLOWING = re.compile(r"tail([ \t]+[^\s|;&]+)*[ \t]+(-\w*[fF]\w*|--follow(=\S*)?)(?=[\s|;&]|$)")
"""Pattern of the command `tail -f`, which is refused because it never ends. `tail x-f` and `tail x | grep -f y` do not match."""


async def run_shell(command: str, session: Session, context: ToolContext, tool_names: Iterable[str]) -> ToolResult:
    """Run a shell command in the agent's working directory. Raises ToolError if the command would wait for input."""
    refuse_interactive(command)
    result = await context.sandbox.exec(command, timeout_s=context.timeout_s, cwd=session.cwd)
    text = "\n".join([*describe(result, context.timeout_s), *hint_at_tools(result, tool_names)])
    return ToolResult(
        text, replace(session, cwd=result.cwd or session.cwd), result.exit_code, command_s=result.duration_s
    )


def refuse_interactive(command: str) -> None:
    """Raise ToolError if a command calls an editor, pager, monitor, bare interpreter or `tail -f`, or has a NUL character."""
    if "\0" in command:
        raise ToolError("a command cannot hold a NUL character")
    program = first_word(command)
    if program in INTERACTIVE:
        raise ToolError(f"{program} waits for a person and cannot be used here: use commands that end by themselves")
    if program in INTERPRETERS and command.strip() == program:
        raise ToolError(f"{program} without arguments waits for a person: give it a script or code to run")
    if _FOLLOWING.match(command.strip()):
        raise ToolError("tail -f never ends: use tail without -f")


def describe(result: ExecResult, timeout_s: float) -> list[str]:
    """Return the lines of an observation: a command's output, and notes on truncation, timeout, exit code or empty output."""
    output = result.output.decode("utf-8", "replace").rstrip("\n")
    rows = [output] if output.strip() else []
    if result.truncated:
        rows.append("(output beyond the limit was dropped)")
    if result.timed_out:
        return [*rows, f"(the command was stopped after {timeout_s:g} s)"]
    if result.exit_code != 0:
        return [*rows, f"(exit code {result.exit_code})"]
    return rows or ["(no output)"]


def hint_at_tools(result: ExecResult, tool_names: Iterable[str]) -> list[str]:
    """Return a hint on how to call tools if the shell tried to run a tool, as in `cd src && open a.py`."""
    names = "|".join(tool_names)
    missing = re.search(rf"\b({names}): (command )?not found", result.output.decode("utf-8", "replace"))
    if not missing:
        return []
    return [f"({missing[1]} is a tool, not a program: call it alone, as the first word of its own command block)"]
