"""Text files in the sandbox, read and written as lines. Lines that are not edited keep all bytes, even if not UTF-8."""

from dataclasses import dataclass
from functools import cached_property

from turnsmith.agent.tools.base import Session, ToolError
from turnsmith.sandboxes.base import Sandbox

ENCODING = {"encoding": "utf-8", "errors": "surrogateescape"}


@dataclass(frozen=True)
class TextFile:
    """Text file as a list of lines; an empty file has one empty line, so that the agent can edit it."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        lines = self.text.split("\n")
        return lines[:-1] if len(lines) > 1 and not lines[-1] else lines

    def with_lines(self, first: int, last: int, new: list[str]) -> "TextFile":
        """Return a copy with the lines `first` to `last` (from 1, inclusive) replaced; `new` gets CRLF if all of these had it."""
        lines = list(self.lines)
        if all(line.endswith("\r") for line in lines[first - 1 : last]):
            new = [line.removesuffix("\r") + "\r" for line in new]
        lines[first - 1 : last] = new
        ending = "\n" if lines and (self.text.endswith("\n") or not self.text) else ""
        return TextFile(self.path, "\n".join(lines) + ending)


def open_path(session: Session) -> str:
    """Return the path of the open file. Raises ToolError if no file is open."""
    if session.file is None:
        raise ToolError("no file is open: use `open FILE` first")
    return session.file


async def read_file(path: str, sandbox: Sandbox) -> TextFile:
    """Read a text file from the sandbox. Raises ToolError with the reason."""
    try:
        content = await sandbox.read(path)
    except FileNotFoundError:
        raise ToolError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise ToolError(f"{path} is a directory; use `ls` to list it") from None
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror or error}") from None
    if b"\0" in content:
        raise ToolError(f"{path} is a binary file")
    return TextFile(path, content.decode(**ENCODING))


async def write_file(file: TextFile, sandbox: Sandbox) -> None:
    """Write a text file to the sandbox. Raises ToolError with the reason."""
    try:
        await sandbox.write(file.path, file.text.encode(**ENCODING))
    except OSError as error:
        raise ToolError(f"cannot write {file.path}: {error.strerror or error}") from None


async def exists(path: str, sandbox: Sandbox) -> bool:
    """Return True if the sandbox has a file or directory at the path."""
    try:
        await sandbox.read(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True
