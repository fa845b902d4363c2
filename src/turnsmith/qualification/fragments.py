"""Fragments of a patch: consecutive lines that only the patched tree should contain, without indentation and empty lines.

Each hunk gives one fragment: its context and added lines. So a fix that only removes lines has a fragment, too. Longer
additions give one fragment for every four consecutive lines, to find moved text. Single lines are too common to be fragments.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnsmith.git.patch_policy import FilePatch, PatchRefused, read_patch
from turnsmith.qualification.record import LeakKind

RUN_LINES, RUN_CHARACTERS = 4, 80
"""Number of added lines in a fragment of consecutive additions, and its minimum number of characters."""
HUNK_LINES, HUNK_CHARACTERS = 3, 40
"""Minimum number of lines and of characters of a fragment that consists of a hunk."""
MARGIN = b" \t\r+"
"""Characters stripped from lines; `+` is stripped so that a copy of the patch itself is found."""
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fragment:
    """Consecutive lines of a file after a patch, as a text to search for."""

    kind: LeakKind
    """Patch from which the fragment comes: gold patch or test patch."""
    path: str
    """Path of the changed file; a renamed file has a fragment for its old path, and one for its new path."""
    text: bytes
    """Stripped lines, with a line end after each and one before the first."""

    @property
    def anchor(self) -> bytes:
        """Return the fragment's longest line, which searches look for before they compare all lines."""
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
    """Yield a hunk's context and added lines together, then each window of four added lines; leave out short fragments."""
    after = [line for line in body if line[:1] not in ("-", "\\")]
    if len(lines := _strip_marks(after)) >= HUNK_LINES and sum(map(len, lines)) >= HUNK_CHARACTERS:
        yield lines
    for is_added, row in groupby(after, key=lambda line: line.startswith("+")):
        lines = _strip_marks(row) if is_added else []
        runs = (lines[start : start + RUN_LINES] for start in range(len(lines) - RUN_LINES + 1))
        yield from (run for run in runs if sum(map(len, run)) >= RUN_CHARACTERS)


def changed_paths(patch: str) -> list[str]:
    """List the paths that a patch changes, adds or removes; of a renamed file, both paths."""
    return sorted({path for file in _read_files(patch) for path in file.paths})


def new_words(patch: str) -> set[str]:
    """Return the words in the paths and added lines of a patch that its removed and context lines do not contain."""
    files = _read_files(patch)
    added = {word for file in files for line in file.added for word in WORD.findall(line)}
    others = {line[1:] for file in files for hunk in file.hunks for line in hunk if not line.startswith("+")}
    known = {word for line in others for word in WORD.findall(line)}
    return (added - known) | {word for path in changed_paths(patch) for word in WORD.findall(path)}


def _read_files(patch: str) -> list[FilePatch]:
    """Read the files of a patch; empty if the grader would refuse the patch, which disqualifies the task anyway."""
    try:
        return read_patch(patch)
    except PatchRefused:
        return []


def strip_lines(content: bytes) -> list[bytes]:
    """Return the non-empty lines of a text without indentation."""
    return [line for line in (line.strip(MARGIN) for line in content.split(b"\n")) if line]


def _strip_marks(lines: Iterable[str]) -> list[bytes]:
    return strip_lines("\n".join(line[1:] for line in lines).encode(errors="surrogateescape"))


def _join(lines: list[bytes]) -> bytes:
    return b"\n" + b"\n".join(lines) + b"\n"
