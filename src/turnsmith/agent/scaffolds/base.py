"""Scaffold: a named set of tools and prompts (paper §3.3 to §3.6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import TemplateError

from turnsmith.agent.names import SCAFFOLDS, TOOLS
from turnsmith.agent.prompts import fill_in, find_prompts
from turnsmith.agent.tools.base import Session, Tool, ToolContext, ToolError, ToolResult, legible
from turnsmith.agent.tools.command_line import first_word, read_call
from turnsmith.agent.tools.shell import run_shell
from turnsmith.errors import UsageError


@dataclass(frozen=True)
class Scaffold:
    """Tools (besides the shell) and prompts of an agent."""

    tools: tuple[Tool, ...]
    """Tools that can be called by their name as a command's first word; other commands run in the sandbox's shell."""
    prompts: Path
    """Folder of the prompt templates `system`, `issue` and `demonstration.jinja`."""
    shell_prompt: str
    """Format of every observation's last line; `{cwd}` is the working directory, `{file}` the open file or `none`."""

    def system(self, demonstration: bool = False) -> str:
        """Render the system message, which is the same for all tasks."""
        system = fill_in(self.prompts, "system", tools=self.tools)
        return f"{system}\n\n{fill_in(self.prompts, 'demonstration')}" if demonstration else system

    def prompt_line(self, session: Session) -> str:
        """Render the shell prompt, the last line of an observation, as text that UTF-8 can encode."""
        return legible(self.shell_prompt.format(cwd=session.cwd, file=session.file or "none"))

    def issue(self, problem_statement: str, cwd: str) -> str:
        """Render the first user message: the issue, advice, and the shell prompt."""
        prompt_line = self.prompt_line(Session(cwd))
        return fill_in(
            self.prompts, "issue", problem_statement=problem_statement.strip(), cwd=cwd, prompt_line=prompt_line
        )

    async def act(self, command: str, session: Session, context: ToolContext) -> ToolResult:
        """Run one command of the agent by a tool or the shell. Wrong use of a tool returns an error text. Raises SandboxError."""
        tools = {tool.name: tool for tool in self.tools}
        try:
            if tool := tools.get(first_word(command)):
                call = read_call(tool, command)
                wants_help = "--help" in call.options
                result = ToolResult(tool.help, session) if wants_help else await tool.run(call, session, context)
            else:
                result = await run_shell(command, session, context, tools)
        except ToolError as error:
            result = ToolResult(f"Error: {error}", session, exit_code=1)
        return replace(result, text=legible(result.text))


def load_scaffold(name: str = "paper", prompts: str | None = None, tools: Sequence[str] = ()) -> Scaffold:
    """Load a scaffold by name or import path, optionally with other prompts and more tools. Raises UsageError."""
    scaffold = SCAFFOLDS.load_instance(name, Scaffold)
    added = (TOOLS.load_instance(tool, Tool) for tool in tools)
    all_tools = {tool.name: tool for tool in (*scaffold.tools, *added)}
    folder = find_prompts(prompts) if prompts else scaffold.prompts
    chosen = replace(scaffold, tools=tuple(all_tools.values()), prompts=folder)
    try:
        chosen.system(demonstration=True)
        chosen.issue("", "/")
    except (TemplateError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot use the prompts in {folder}: {error}: the folder needs system, issue and demonstration.jinja"
        ) from None
    return chosen
