"""Lenient reader of patches, for measuring and comparing gold patches. Its results are never applied."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
FILE = re.compile(r"diff --git .* b/(.*)|\+\+\+ (?:b/)?([^\t]*)")


@dataclass(frozen=True)
class Hunk:
    """Marked lines of one hunk, and the file's path."""

    path: str
    lines: tuple[str, ...]

    @property
    def num_changes(self) -> int:
        return len([line for line in self.lines if line.startswith(("+", "-"))])


def read_hunks(patch: str) -> Iterator[Hunk]:
    """Yield the hunks of a patch. Lengths come from hunk headers, so a removed `-- x` is not read as a file name."""
    path, lines = "", iter(patch.split("\n"))
    for line in lines:
        if line.startswith("@@ ") and (header := HEADER.match(line)):
            num_old, num_new = (int(number) for number in header.groups("1"))
            yield Hunk(path, tuple(_read_body(lines, num_old, num_new)))
        elif line.startswith(("diff --git ", "+++ ")) and (named := FILE.match(line)):
            path = named[1] or named[2]


def _read_body(lines: Iterator[str], num_old: int, num_new: int) -> Iterator[str]:
    while num_old > 0 or num_new > 0:
        line = next(lines, None)
        if line is None:  # truncated
            return
        mark = line[:1]
        if mark != "\\":
            num_old -= mark != "+"
            num_new -= mark != "-"
        yield line


def count_files(patch: str) -> int:
    """Count the files that a patch changes, adds, removes or renames."""
    named = sum(line.startswith("diff --git ") for line in patch.split("\n"))
    return named or len({hunk.path for hunk in read_hunks(patch)})


def count_lines(patch: str) -> int:
    """Count the lines that a patch adds or removes."""
    return sum(hunk.num_changes for hunk in read_hunks(patch))
