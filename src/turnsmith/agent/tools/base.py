"""Shared types of tools: session, call, result, and the error that is shown to the agent."""

import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnsmith.sandboxes.base import Sandbox


def legible(text: str) -> str:
    """Replace undecodable bytes (surrogate escapes) by U+FFFD, so that the text can be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True)
class Session:
    """State of an agent kept on the host between turns."""

    cwd: str
    file: str | None = None
    """Absolute path of the open file."""
    first_line: int = 1
    """First line of the window on the open file."""

    def absolute(self, path: str) -> str:
        """Resolve a path against the current directory."""
        if "\0" in path:
            raise ToolError("a path cannot hold a NUL character")
        return posixpath.normpath(posixpath.join(self.cwd, path))


@dataclass(frozen=True)
class ToolContext:
    """Sandbox and limits passed to tools."""

    sandbox: Sandbox
    window_lines: int
    """Height of the file window, in lines."""
    timeout_s: float
    """Time limit of a shell command, in seconds."""


@dataclass(frozen=True)
class Call:
    """Parsed tool call, with quotes removed."""

    arguments: list[str]
    options: dict[str, str]
    """Options with their values; a switch has an empty value."""
    heredoc: str | None = None
    """Heredoc text; every line ends with a newline."""


@dataclass(frozen=True)
class ToolResult:
    """Result of a command."""

    text: str
    session: Session
    exit_code: int | None = 0
    """Exit code of the command; 1 for wrong use of a tool; None if nothing ran."""
    submitted: bool = False
    """True only after a parsed `submit` command; output cannot end an episode."""
    command_s: float = 0.0
    """Run time of the agent's own command, in seconds."""


class ToolError(Exception):
    """Error raised if the agent uses a tool wrongly; the message becomes the observation."""


@dataclass(frozen=True)
class Tool:
    """Tool definition: syntax, description, function."""

    usage: str
    """Synopsis, for example `open [FILE] [LINE_NUMBER]`; its first word is the name."""
    purpose: str
    """Description shown to the agent."""
    run: Callable[[Call, Session, ToolContext], Awaitable[ToolResult]]
    num_arguments: tuple[int, int] = (0, 0)
    """Minimum and maximum number of positional arguments."""
    switches: tuple[str, ...] = ()
    """Options without a value."""
    valued: tuple[str, ...] = ()
    """Options with a value."""
    heredoc: bool = False
    """True if the last argument may come as a heredoc."""

    @property
    def name(self) -> str:
        return self.usage.split()[0]

    @property
    def help(self) -> str:
        """Return the help text in the style of the original tools."""
        return f"Usage: {self.usage}\n{self.purpose}"
