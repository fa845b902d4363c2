"""Hands: commands by which the expert searches, reads, edits and tests, with the tools of its scaffold or else the shell."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from shlex import quote

from turnsmith.agent.expert.code_map import Definition
from turnsmith.types import PYTEST, Task

NO_ADDED_OPTIONS = "-o addopts="
"""Option by which a task's test command drops the options that the repository configures."""


@dataclass(frozen=True)
class Hands:
    """Writer of commands for one scaffold."""

    tools: Collection[str]
    """Names of the scaffold's tools; the shell does what they cannot."""
    window_lines: int
    """Number of lines that a view of a file shows."""

    def search(self, definition: Definition, wanted: str = "") -> str:
        """Search the repository for a definition, or for `wanted` in place of its name."""
        name = wanted or definition.name
        if definition.kind == "name":
            return f"grep -rnw --include=*.py {quote(name)} ."
        return f'grep -rn "{definition.kind} {name}" .'

    def search_file(self, path: str, definition: Definition) -> str:
        """Search one file for a definition."""
        term = definition.name if definition.kind == "name" else f"{definition.kind} {definition.name}"
        return (
            f'search_file "{term}" {write_path(path)}'
            if "search_file" in self.tools
            else f'grep -n "{term}" {write_path(path)}'
        )

    def outline(self, path: str) -> str:
        """List the functions and classes of a file."""
        return f'grep -n "^ *def \\|^ *async def \\|^ *class " {write_path(path)}'

    def list_files(self) -> str:
        """List the Python files of the repository."""
        return 'find . -name "*.py"'

    def view(self, path: str, line: int, open_path: str, last_shown: int) -> str:
        """Show the lines from `line` on. `last_shown` is the last line that the window on the open file shows."""
        if "open" not in self.tools:
            first = max(1, line - 1)
            return f'grep -n "" {write_path(path)} | sed -n "{first},{first + self.window_lines - 1}p"'
        if open_path == path and line == last_shown + 1 and "scroll_down" in self.tools:
            return "scroll_down"
        return f"goto {line}" if open_path == path and "goto" in self.tools else f"open {write_path(path)} {line}"

    def edit(self, path: str, first: int, last: int, lines: Sequence[str], open_path: str) -> str:
        """Replace the lines `first` to `last` of a file, both inclusive."""
        end = choose_delimiter(lines)
        text = "".join(f"{line}\n" for line in lines)
        if "edit" in self.tools:
            place = "" if open_path == path else f" --file {write_path(path)}"
            return f"edit {first}:{last}{place} << '{end}'\n{text}{end}" if lines else f"edit {first}:{last}{place}"
        if not lines:
            return f'sed -i "{first},{last}d" {write_path(path)}'
        return f"sed -i -e '{last}r /dev/stdin' -e '{first},{last}d' {write_path(path)} << '{end}'\n{text}{end}"

    def create(self, path: str, text: str) -> str:
        """Write a new file."""
        end = choose_delimiter(text.split("\n"))
        folder = f"mkdir -p {quote(path.rpartition('/')[0])} && " if "/" in path else ""
        return f"{folder}cat > {write_path(path)} << '{end}'\n{text.removesuffix(chr(10))}\n{end}"

    def remove(self, path: str) -> str:
        """Delete a file."""
        return f"rm {write_path(path)}"

    def test(self, task: Task, tests: Sequence[str]) -> str:
        """Run some tests of a task, with short tracebacks; all tests if none is named."""
        program, pytest, options = task.test_command.partition("pytest")
        if task.log_parser != PYTEST or not pytest:
            return task.test_command
        cleared = [NO_ADDED_OPTIONS] if NO_ADDED_OPTIONS in options else []
        return " ".join([f"{program}pytest -q --tb=short", *cleared, *map(quote, tests)])


def write_path(path: str) -> str:
    """Write a path as `grep -rn … .` and `find .` print it, so that a model can copy its tokens: `./shop.py`, not ` shop.py`."""
    return quote(f"./{path}")


def choose_delimiter(lines: Sequence[str]) -> str:
    """Choose the delimiter of a heredoc that no line of the text equals."""
    end = "EOF"
    while end in lines:
        end += "F"
    return end
