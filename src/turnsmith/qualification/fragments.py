"""Fragments of a patch: runs of lines that only the patched tree should hold, without indentation and blank lines.

Each hunk gives one fragment with its context and added lines, which also finds fixes that remove a line. Longer additions
give one fragment for every four consecutive lines, to find moved text. Single lines are too common to be fragments.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnsmith.git.patch_policy import FilePatch, PatchRefused, read_patch
from turnsmith.qualification.record import LeakKind

RUN_LINES, RUN_CHARACTERS = 4, 80
"""Consecutive added lines of a fragment, and their minimum number of characters."""
HUNK_LINES, HUNK_CHARACTERS = 3, 40
"""Minimum lines and characters of a hunk's fragment."""
MARGIN = b" \t\r+"
"""Characters stripped from lines; `+` is stripped so that a copy of the patch is found."""
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fragment:
    """Lines of one file of a patch."""

    kind: LeakKind
    """Patch that it comes from."""
    path: str
    """File that the patch changes, under one of its names."""
    text: bytes
    """Stripped lines, each with a line end, after one leading line end."""

    @property
    def anchor(self) -> bytes:
        """Return the longest line, for a quick search."""
        return max(self.text.split(b"\n"), key=len)

    def is_in(self, content: bytes) -> bool:
        return self.anchor in content and self.text in _join(strip_lines(content))


def make_fragments(patch: str, kind: LeakKind) -> list[Fragment]:
    """List the distinct fragments of a patch; binary files have none."""
    return list(
        dict.fromkeys(
            Fragment(kind, path, _join(lines))
            for file in _read_files(patch)
            for path in sorted(file.paths)
            for body in file.hunks
            for lines in _split(body)
        )
    )


def _split(body: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the lines of a hunk after the patch, and runs of added lines, if they are long enough."""
    after = [line for line in body if line[:1] not in ("-", "\\")]
    if len(lines := _strip_marks(after)) >= HUNK_LINES and sum(map(len, lines)) >= HUNK_CHARACTERS:
        yield lines
    for is_added, row in groupby(after, key=lambda line: line.startswith("+")):
        lines = _strip_marks(row) if is_added else []
        runs = (lines[start : start + RUN_LINES] for start in range(len(lines) - RUN_LINES + 1))
        yield from (run for run in runs if sum(map(len, run)) >= RUN_CHARACTERS)


def changed_paths(patch: str) -> list[str]:
    """List the files that a patch changes, adds, removes or renames, under all names."""
    return sorted({path for file in _read_files(patch) for path in file.paths})


def new_words(patch: str) -> set[str]:
    """Return the words of a patch's paths and added lines, except words in its other lines."""
    files = _read_files(patch)
    added = {word for file in files for line in file.added for word in WORD.findall(line)}
    others = {line[1:] for file in files for hunk in file.hunks for line in hunk if not line.startswith("+")}
    known = {word for line in others for word in WORD.findall(line)}
    return (added - known) | {word for path in changed_paths(patch) for word in WORD.findall(path)}


def _read_files(patch: str) -> list[FilePatch]:
    """Read the files of a patch; empty if the grader refuses it, which disqualifies the task anyway."""
    try:
        return read_patch(patch)
    except PatchRefused:
        return []


def strip_lines(content: bytes) -> list[bytes]:
    """Return the non-empty lines without indentation."""
    return [line for line in (line.strip(MARGIN) for line in content.split(b"\n")) if line]


def _strip_marks(lines: Iterable[str]) -> list[bytes]:
    return strip_lines("\n".join(line[1:] for line in lines).encode(errors="surrogateescape"))


def _join(lines: list[bytes]) -> bytes:
    return b"\n" + b"\n".join(lines) + b"\n"
