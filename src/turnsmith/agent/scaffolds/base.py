"""A scaffold: a named set of tools and prompts (paper §3.3 to §3.6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import TemplateError

from turnsmith.agent.prompts import fill_in, find_prompts
from turnsmith.agent.tools.base import Session, Tool, ToolContext, ToolError, ToolResult, legible
from turnsmith.agent.tools.command_line import first_word, read_call
from turnsmith.agent.tools.shell import run_shell
from turnsmith.errors import UsageError
from turnsmith.plugins import load_instance


@dataclass(frozen=True)
class Scaffold:
    """What an agent may do, beside the shell, and what it is told."""

    tools: tuple[Tool, ...]
    """The first word of a command names one; anything else is for the shell of the sandbox."""
    prompts: Path
    """Folder of its templates: `system`, `issue` and `demonstration.jinja`."""
    shell_prompt: Callable[[Session], str]
    """The line that ends every observation, from what is remembered."""

    def system(self, demonstration: bool = False) -> str:
        """The system message; it is the same for every task."""
        system = fill_in(self.prompts, "system", tools=self.tools)
        return f"{system}\n\n{fill_in(self.prompts, 'demonstration')}" if demonstration else system

    def prompt_line(self, session: Session) -> str:
        """The shell prompt, as text that can be encoded."""
        return legible(self.shell_prompt(session))

    def issue(self, problem_statement: str, cwd: str) -> str:
        """The first user message: the issue, advice, and the shell prompt."""
        prompt_line = self.prompt_line(Session(cwd))
        return fill_in(
            self.prompts, "issue", problem_statement=problem_statement.strip(), cwd=cwd, prompt_line=prompt_line
        )

    async def act(self, command: str, session: Session, context: ToolContext) -> ToolResult:
        """Run one command. Wrong use is an answer, not an exception. Raises SandboxError."""
        tools = {tool.name: tool for tool in self.tools}
        try:
            tool = tools.get(first_word(command))
            result = await (
                use(tool, command, session, context) if tool else run_shell(command, session, context, tools)
            )
        except ToolError as error:
            result = ToolResult(f"Error: {error}", session, exit_code=1)
        return replace(result, text=legible(result.text))


async def use(tool: Tool, command: str, session: Session, context: ToolContext) -> ToolResult:
    """Call a tool, or print its help."""
    call = read_call(tool, command)
    if "--help" in call.options:
        return ToolResult(tool.help, session)
    return await tool.run(call, session, context)


def load_scaffold(name: str = "paper", prompts: str | None = None, tools: Sequence[str] = ()) -> Scaffold:
    """A scaffold by name or import path, with other prompts and more tools where they are given. Raises UsageError."""
    scaffold = load_instance("scaffold", name, Scaffold)
    added = (load_instance("tool", tool, Tool) for tool in tools)
    all_tools = {tool.name: tool for tool in (*scaffold.tools, *added)}
    folder = find_prompts(prompts) if prompts else scaffold.prompts
    chosen = replace(scaffold, tools=tuple(all_tools.values()), prompts=folder)
    check_prompts(chosen)
    return chosen


def check_prompts(scaffold: Scaffold) -> None:
    """Fill in all templates once. Raises UsageError for one that is missing or cannot be filled in."""
    try:
        scaffold.system(demonstration=True)
        scaffold.issue("", "/")
    except (TemplateError, UnicodeDecodeError) as error:
        raise UsageError(
            f"prompts {scaffold.prompts}: cannot use {error}: the folder needs system, issue and demonstration.jinja"
        ) from None
