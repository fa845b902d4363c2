"""Fragments of a patch: runs of lines that nobody but the patch should hold, compared without indentation and blank lines.

Of each hunk there is one with all that the hunk leaves behind, its context and what it adds, so that a fix which takes a line
away is found by the lines that then stand side by side. Of longer additions there is one for every four lines in a row, for
text that was moved. A single added line is no fragment: `return result` proves nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnsmith.git.patch_policy import FilePatch, PatchRefused, read_patch
from turnsmith.qualification.record import LeakKind

RUN_LINES, RUN_CHARACTERS = 4, 80
"""Added lines in a row that make a fragment of their own, and what they hold together at least."""
HUNK_LINES, HUNK_CHARACTERS = 3, 40
"""What a hunk leaves behind at least, to be a fragment."""
MARGIN = b" \t\r+"
"""What is stripped from lines; the `+`, so that the patch itself is found where it lies."""
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fragment:
    """Lines of one file of a patch."""

    kind: LeakKind
    """Which patch it is of."""
    path: str
    """File that the patch changes, under one of its names."""
    text: bytes
    """The stripped lines, each with its line end and one more in front."""

    @property
    def anchor(self) -> bytes:
        """The longest line, which is quickly looked for."""
        return max(self.text.split(b"\n"), key=len)

    def is_in(self, content: bytes) -> bool:
        return self.anchor in content and self.text in _join(strip_lines(content))


def make_fragments(patch: str, kind: LeakKind) -> list[Fragment]:
    """All fragments of a patch, each once; what of it is not text has none."""
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
    """What a hunk leaves behind, and every few of the lines that it adds in a row, where that is long enough."""
    after = [line for line in body if line[:1] not in ("-", "\\")]
    if len(lines := _strip_marks(after)) >= HUNK_LINES and sum(map(len, lines)) >= HUNK_CHARACTERS:
        yield lines
    for is_added, row in groupby(after, key=lambda line: line.startswith("+")):
        lines = _strip_marks(row) if is_added else []
        runs = (lines[start : start + RUN_LINES] for start in range(len(lines) - RUN_LINES + 1))
        yield from (run for run in runs if sum(map(len, run)) >= RUN_CHARACTERS)


def changed_paths(patch: str) -> list[str]:
    """Files that a patch changes, adds, removes or renames, under all their names."""
    return sorted({path for file in _read_files(patch) for path in file.paths})


def new_words(patch: str) -> set[str]:
    """Words of the lines that a patch adds, but not those that its other lines show to have been there; and of its paths."""
    files = _read_files(patch)
    added = {word for file in files for line in file.added for word in WORD.findall(line)}
    others = {line[1:] for file in files for hunk in file.hunks for line in hunk if not line.startswith("+")}
    known = {word for line in others for word in WORD.findall(line)}
    return (added - known) | {word for path in changed_paths(patch) for word in WORD.findall(path)}


def _read_files(patch: str) -> list[FilePatch]:
    """The files of a patch, as the grader reads them; none where it is refused, since its task falls out by that."""
    try:
        return read_patch(patch)
    except PatchRefused:
        return []


def strip_lines(content: bytes) -> list[bytes]:
    """The lines without indentation, blank ones left out."""
    return [line for line in (line.strip(MARGIN) for line in content.split(b"\n")) if line]


def _strip_marks(lines: Iterable[str]) -> list[bytes]:
    return strip_lines("\n".join(line[1:] for line in lines).encode(errors="surrogateescape"))


def _join(lines: list[bytes]) -> bytes:
    return b"\n" + b"\n".join(lines) + b"\n"
