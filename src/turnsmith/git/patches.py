"""Scanner, parser and writer of git patches: splits patches into hunks, rejects truncated patches, reverses changes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from turnsmith.errors import TurnsmithError

HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(.*)", re.DOTALL)
FILE = "diff --git "
INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(.*)")
NOTHING = "/dev/null"
OPPOSITES = {
    "--- ": "+++ ",
    "old mode ": "new mode ",
    "new file mode ": "deleted file mode ",
    "rename from ": "rename to ",
}
"""Prefixes of header lines that are exchanged when a patch is reversed."""


class BadDiff(TurnsmithError):
    """Error raised if a text is not a complete git patch."""


@dataclass(frozen=True)
class Block:
    """Hunk of a patch, header first, or a single line outside hunks."""

    number: int
    """Line number of the block's first line in the patch, from 1."""
    lines: tuple[str, ...]
    header: re.Match[str] | None = None
    """Parsed header of a hunk; None for a line outside hunks."""
    is_complete: bool = True
    """False for a hunk with another number of lines than its header states."""


def scan_patch(patch: str) -> Iterator[Block]:
    """Split a patch into blocks. A hunk is as long as its header states, so its line `--- x` is not taken for a file header."""
    lines = patch.removesuffix("\n").split("\n") if patch else []
    at = 0
    while at < len(lines):
        header = HUNK.fullmatch(lines[at])
        end, is_complete = _find_end(lines, at + 1, header) if header else (at + 1, True)
        yield Block(at + 1, tuple(lines[at:end]), header, is_complete)
        at = end


def _find_end(lines: list[str], at: int, header: re.Match[str]) -> tuple[int, bool]:
    """Return the index after a hunk's last line, and True if the hunk is as long as its header states."""
    old, new = int(header[2] or 1), int(header[4] or 1)
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        mark = lines[at][:1]
        if mark not in ("", " ", "-", "+", "\\"):
            break
        old -= mark in ("", " ", "-")
        new -= mark in ("", " ", "+")
        at += 1
    return at, old == new == 0


def read_hunks(patch: str) -> Iterator[tuple[str, ...]]:
    """Yield the lines of each hunk with their marks (`+`, `-` or blank), even if the hunk is incomplete."""
    return (block.lines[1:] for block in scan_patch(patch) if block.header)


def count_files(patch: str) -> int:
    """Count the files that a patch changes, adds, removes or renames."""
    lines = [block.lines[0] for block in scan_patch(patch) if not block.header]
    return sum(line.startswith(FILE) for line in lines) or len({line for line in lines if line.startswith("+++ ")})


def count_lines(patch: str) -> int:
    """Count the lines that a patch adds or removes."""
    return sum(line.startswith(("+", "-")) for lines in read_hunks(patch) for line in lines)


@dataclass(frozen=True)
class DiffHunk:
    """Hunk of a patch: (start, count) before and after, the text after `@@`, and the lines with their marks."""

    old: tuple[int, int]
    new: tuple[int, int]
    section: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    """Part of a patch that changes one file."""

    header: tuple[str, ...]
    """Lines before the file's first hunk, starting with `diff --git …`."""
    hunks: tuple[DiffHunk, ...] = ()

    @property
    def path(self) -> str:
        """Return the file's path after the patch, or before it if deleted."""
        new = self._named("+++ ") or self._named("rename to ")
        return new or self._named("--- ") or self.header[0].rpartition(" b/")[2]

    @property
    def is_deleted(self) -> bool:
        return any(line.startswith("deleted file mode") for line in self.header) or f"+++ {NOTHING}" in self.header

    @property
    def is_cut_binary(self) -> bool:
        """Return True if the patch only states that the binary file differs, without its content."""
        return any(line.startswith("Binary files ") for line in self.header)

    def _named(self, beginning: str) -> str:
        names = [line.removeprefix(beginning) for line in self.header if line.startswith(beginning)]
        name = names[0].partition("\t")[0] if names else ""
        if beginning.startswith("rename"):
            return name
        return "" if name == NOTHING else name.partition("/")[2]


def parse_diff(patch: str) -> list[FileDiff]:
    """Parse a patch into its files. Raises BadDiff."""
    parts: list[list[Block]] = []
    for block in scan_patch(patch):
        if block.lines[0].startswith(FILE):
            parts.append([])
        elif not parts:
            break
        parts[-1].append(block)
    if not parts:
        raise BadDiff(f"it begins with {patch[:40].partition(chr(10))[0]!r}, not with 'diff --git'")
    files = [_parse_file(blocks) for blocks in parts]
    if cut := next((file for file in files if file.is_cut_binary), None):
        raise BadDiff(f"the content of the binary file {cut.path} is missing")
    return files


def _parse_file(blocks: list[Block]) -> FileDiff:
    """Parse the part of a patch that changes one file; drop blank lines after hunks. Raises BadDiff."""
    start = next((number for number, block in enumerate(blocks) if block.lines[0].startswith("@@ ")), len(blocks))
    hunks = (_parse_hunk(block) for block in blocks[start:] if block.lines != ("",))
    return FileDiff(tuple(block.lines[0] for block in blocks[:start]), tuple(hunks))


def _parse_hunk(block: Block) -> DiffHunk:
    """Parse a hunk. Raises BadDiff if it lacks a header or has another number of lines than its header states."""
    head, *body = block.lines
    if not (found := block.header):
        raise BadDiff(f"line {block.number}, {head[:40]!r}, belongs to no hunk")
    if not block.is_complete:
        raise BadDiff(f"the hunk {head[:40]!r} does not have the declared number of lines")
    return DiffHunk((int(found[1]), int(found[2] or 1)), (int(found[3]), int(found[4] or 1)), found[5], tuple(body))


def render_diff(files: list[FileDiff]) -> str:
    return "".join(f"{line}\n" for file in files for line in (*file.header, *_render_hunks(file.hunks)))


def _render_hunks(hunks: tuple[DiffHunk, ...]) -> Iterator[str]:
    for hunk in hunks:
        yield f"@@ -{_render_range(hunk.old)} +{_render_range(hunk.new)} @@{hunk.section}"
        yield from hunk.lines


def _render_range(lines: tuple[int, int]) -> str:
    return str(lines[0]) if lines[1] == 1 else f"{lines[0]},{lines[1]}"


def add_file(path: str, text: str) -> FileDiff:
    """Build a patch that adds a text file."""
    header = (f"diff --git a/{path} b/{path}", "new file mode 100644", "--- /dev/null", f"+++ b/{path}")
    if not text:
        return FileDiff((*header[:2], "index 0000000..e69de29"))
    lines = [f"+{line}" for line in text.removesuffix("\n").split("\n")]
    end = () if text.endswith("\n") else ("\\ No newline at end of file",)
    return FileDiff(header, (DiffHunk((0, 0), (1, len(lines)), "", (*lines, *end)),))


def reverse_diff(files: list[FileDiff]) -> list[FileDiff]:
    """Build the patch that undoes a patch. Raises BadDiff for copies and binary changes."""
    return [FileDiff(_reverse_header(file.header), tuple(map(_reverse_hunk, file.hunks))) for file in files]


def _reverse_header(header: tuple[str, ...]) -> tuple[str, ...]:
    if odd := next((line for line in header if line.startswith(("copy ", "GIT binary patch"))), None):
        raise BadDiff(f"{odd[:40]!r} cannot be reversed")
    before, _, after = header[0].removeprefix("diff --git a/").partition(" b/")
    lines = [f"diff --git a/{after} b/{before}", *map(_reverse_line, header[1:])]
    for first, second in (("--- ", "+++ "), ("old mode ", "new mode "), ("rename from ", "rename to ")):
        _put_in_order(lines, first, second)
    return tuple(lines)


def _reverse_line(line: str) -> str:
    if index := INDEX.fullmatch(line):
        return f"index {index[2]}..{index[1]}{index[3]}"
    for one, other in (*OPPOSITES.items(), *((other, one) for one, other in OPPOSITES.items())):
        if line.startswith(one):
            return other + _reverse_name(line.removeprefix(one), other)
    return line


def _reverse_name(name: str, beginning: str) -> str:
    """Adapt a file name to the header line that `beginning` starts: the prefix becomes `a/` for `--- `, `b/` for `+++ `."""
    if beginning not in ("--- ", "+++ ") or name.startswith(NOTHING):
        return name
    return ("a/" if beginning == "--- " else "b/") + name.partition("/")[2]


def _put_in_order(lines: list[str], first: str, second: str) -> None:
    """Swap the two header lines that start with `first` and `second` if they are in the reverse order."""
    places = [next((at for at, line in enumerate(lines) if line.startswith(it)), None) for it in (first, second)]
    if None not in places and places[0] > places[1]:  # type: ignore[operator]
        one, other = places
        lines[one], lines[other] = lines[other], lines[one]  # type: ignore[index]


def _reverse_hunk(hunk: DiffHunk) -> DiffHunk:
    return replace(hunk, old=hunk.new, new=hunk.old, lines=tuple(_reverse_changes(hunk.lines)))


def _reverse_changes(lines: tuple[str, ...]) -> Iterator[str]:
    """Exchange the marks `+` and `-` of a hunk's lines; keep removals before additions, as git does."""
    removed, added, last = list[str](), list[str](), list[str]()
    for line in lines:
        if line.startswith("+"):
            removed.append(f"-{line[1:]}")
            last = removed
        elif line.startswith("-"):
            added.append(f"+{line[1:]}")
            last = added
        elif line.startswith("\\") and (removed or added):
            last.append(line)
        else:
            yield from (*removed, *added, line)
            removed, added = [], []
    yield from (*removed, *added)
