"""Types that all tools use: session, call, result, and the error that the agent sees."""

import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnsmith.sandboxes.base import Sandbox


def legible(text: str) -> str:
    """Replace undecodable bytes (surrogate escapes) by U+FFFD, so that the text can be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True)
class Session:
    """State of an agent's tools between turns: working directory and open file, kept on the host."""

    cwd: str
    file: str | None = None
    """Absolute path of the open file; None if no file is open."""
    first_line: int = 1
    """Number of the first line of the open file that the window shows."""

    def absolute(self, path: str) -> str:
        """Return the absolute form of a path, relative to the agent's working directory. Raises ToolError."""
        if "\0" in path:
            raise ToolError("a path cannot hold a NUL character")
        return posixpath.normpath(posixpath.join(self.cwd, path))


@dataclass(frozen=True)
class ToolContext:
    """Sandbox and limits that tools get with each call."""

    sandbox: Sandbox
    window_lines: int
    """Number of lines that the window on a file shows."""
    timeout_s: float
    """Time limit of a shell command, in seconds."""


@dataclass(frozen=True)
class Call:
    """Call of a tool, parsed from the agent's command, with quotes removed."""

    arguments: list[str]
    options: dict[str, str]
    """Options of the call → values; an option without a value has an empty one."""
    heredoc: str | None = None
    """Text of the call's heredoc, of which every line ends with a newline; None without a heredoc."""


@dataclass(frozen=True)
class ToolResult:
    """Result of an agent's command: observation, new session, exit code."""

    text: str
    session: Session
    exit_code: int | None = 0
    """Exit code of the command; 1 if a tool was used wrongly; None if the turn had a format error."""
    submitted: bool = False
    """True after a parsed `submit` command, never because of a program's output."""
    command_s: float = 0.0
    """Run time of the agent's command, in seconds."""


class ToolError(Exception):
    """Error raised if the agent uses a tool wrongly; its message becomes the observation."""


@dataclass(frozen=True)
class Tool:
    """Tool of the agent: syntax, description and function."""

    usage: str
    """Syntax of the tool, for example `open [FILE] [LINE_NUMBER]`; the first word is the tool's name."""
    purpose: str
    """Description of the tool that the agent sees."""
    run: Callable[[Call, Session, ToolContext], Awaitable[ToolResult]]
    num_arguments: tuple[int, int] = (0, 0)
    """Minimum and maximum number of the tool's positional arguments."""
    switches: tuple[str, ...] = ()
    """Names of the tool's options without a value."""
    valued: tuple[str, ...] = ()
    """Names of the tool's options with a value."""
    heredoc: bool = False
    """True if the tool's last argument may be given as a heredoc."""

    @property
    def name(self) -> str:
        return self.usage.split()[0]

    @property
    def help(self) -> str:
        """Return the tool's help text: syntax and description."""
        return f"Usage: {self.usage}\n{self.purpose}"
