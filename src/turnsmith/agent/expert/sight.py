"""Sight: the part of a repository that a dialogue has shown, read from the texts of observations."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

WORD = re.compile(r"[A-Za-z_]\w*")
HEADER = re.compile(r"^\[(?:File: (?P<file>.+) \(\d+ lines total\)|Lines with .+ in (?P<searched>.+): \d+)\]$")
NUMBERED = re.compile(r"^(\d+):(.*)$")
FOUND = re.compile(r"^(?P<path>[^:\s]+\.\w+):(?P<number>\d+):(?P<content>.*)$")
"""Pattern of a hit of `grep -rn`, and of a place in a traceback of pytest."""
PATH = re.compile(r"[\w./-]+\.\w+")


@dataclass
class Sight:
    """Names, paths and lines that a dialogue has shown so far."""

    workdir: str
    words: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    lines: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """Path → number → content of a line, as shown last."""
    places: set[tuple[str, int]] = field(default_factory=set)
    """Path and line of each place that was named, e.g. in a traceback."""
    last_shown: tuple[str, int] = ("", 0)
    """Path and number of the last line in the latest observation."""

    def take(self, text: str, path: str = "") -> None:
        """Take in a text of the dialogue; `path` is the file whose lines it shows without naming the file."""
        self.last_shown = ("", 0)
        names = WORD.findall(text)
        self.words.update(names, (name.removeprefix("test_") for name in names))
        self.paths.update(self.shorten(found) for found in PATH.findall(text))
        for row in text.split("\n"):
            path = self.take_row(row, path)

    def take_row(self, row: str, path: str) -> str:
        """Take in one row of an observation, and return the path of the file that the next rows show."""
        if header := HEADER.match(row):
            return self.shorten(header["file"] or header["searched"])
        if path and (line := NUMBERED.match(row)):
            self.lines[path][int(line[1])] = line[2]
            self.last_shown = path, int(line[1])
        elif found := FOUND.match(row):
            hit = self.shorten(found["path"]), int(found["number"])
            self.places.add(hit)
            self.lines[hit[0]].setdefault(hit[1], found["content"])
        return path

    def shorten(self, path: str) -> str:
        """Return a path relative to the working directory, as the map of the code names it."""
        return posixpath.normpath(path.removeprefix(f"{self.workdir}/"))

    def move(self, path: str, first: int, last: int, written: Sequence[str]) -> None:
        """Renumber the seen lines of a file after an edit replaced the lines `first` to `last` by the lines `written`."""
        moved = len(written) - (last - first + 1)
        kept = {number: line for number, line in self.lines[path].items() if number < first}
        below = {number + moved: line for number, line in self.lines[path].items() if number > last}
        self.lines[path] = kept | dict(enumerate(written, first)) | below
        self.places = {(each, n + moved if each == path and n > last else n) for each, n in self.places}

    def has_seen(self, path: str, line: int, content: Sequence[str]) -> bool:
        """Return True if the dialogue showed the line with the content that it has in the file; `content` holds all lines."""
        return line <= len(content) and self.lines[path].get(line) == content[line - 1].removesuffix("\r")
