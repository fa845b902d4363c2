"""What all tools share: the session that is remembered, the call, the result, and the error that the agent can mend."""

import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnsmith.sandboxes.base import Sandbox


def legible(text: str) -> str:
    """Text that can be encoded: bytes that were no UTF-8, in a file or in the name of a directory, become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True)
class Session:
    """What the host remembers of an agent's work between turns."""

    cwd: str
    file: str | None = None
    """Absolute path of the open file."""
    first_line: int = 1
    """First line of the window on the open file."""

    def absolute(self, path: str) -> str:
        """The path as seen from the current directory."""
        if "\0" in path:
            raise ToolError("a path cannot hold a NUL character")
        return posixpath.normpath(posixpath.join(self.cwd, path))


@dataclass(frozen=True)
class ToolContext:
    """What tools work with."""

    sandbox: Sandbox
    window_lines: int
    """Lines that the file window shows."""
    timeout_s: float
    """Seconds that a shell command may take."""


@dataclass(frozen=True)
class Call:
    """A tool call as the agent wrote it, quoting removed."""

    arguments: list[str]
    options: dict[str, str]
    """Options given, with their values; a switch has the empty value."""
    heredoc: str | None = None
    """Text of the heredoc; each of its lines ends with a newline."""


@dataclass(frozen=True)
class ToolResult:
    """What a command answers."""

    text: str
    session: Session
    exit_code: int | None = 0
    """Exit code of the command, 1 where a tool was used wrongly; None where nothing ran."""
    submitted: bool = False
    """True after the parsed command `submit`, and after nothing else: no output can end an episode."""
    command_s: float = 0.0
    """Seconds that the agent's own command ran."""


class ToolError(Exception):
    """The agent used a tool wrongly; the message is the observation."""


@dataclass(frozen=True)
class Tool:
    """One tool: how it is called, what it does, and the function that does it."""

    usage: str
    """For example `open [FILE] [LINE_NUMBER]`; the first word is its name."""
    purpose: str
    """What it does, as the agent is told."""
    run: Callable[[Call, Session, ToolContext], Awaitable[ToolResult]]
    num_arguments: tuple[int, int] = (0, 0)
    """Least and most positional arguments."""
    switches: tuple[str, ...] = ()
    """Options without a value."""
    valued: tuple[str, ...] = ()
    """Options with a value."""
    heredoc: bool = False
    """May its last argument come as a heredoc?"""

    @property
    def name(self) -> str:
        return self.usage.split()[0]

    @property
    def help(self) -> str:
        """Help text in the style of the original tools."""
        return f"Usage: {self.usage}\n{self.purpose}"
