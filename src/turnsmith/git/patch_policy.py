"""What a patch may contain, and how it is read.

The grammar is the one that git writes, and strict: a patch that git could read in another way than we do is refused.
"""

import hashlib
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from turnsmith.errors import TurnsmithError
from turnsmith.git.diff import MAX_PATCH_BYTES, NO_PATCH

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
MODE = re.compile(r"(?:old mode|new mode|new file mode|deleted file mode|index \S+) (\d{6})")
NAME = re.compile(r"(?:---|\+\+\+) (?P<prefixed>[^\t]*)\t?|(?:rename|copy) (?:from|to) (?P<bare>.*)")
OTHER_HEADER = re.compile(r"index \S+|(?:dis)?similarity index \d+%|")
BEGIN_BINARY = ["GIT binary patch"]
BINARY = re.compile(r"(?:(?:literal|delta) \d+|[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+)?")
"""A line below: what follows, and its bytes in base 85."""
ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)")
ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


class PatchRefused(TurnsmithError):
    """The patch breaks the policy; the message says how."""


def digest_patch(patch: str) -> str:
    """SHA-256 in hex: what tells patches apart, whatever their bytes spell."""
    return hashlib.sha256(patch.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True)
class FilePatch:
    """The part of a patch that speaks of one file."""

    text: str
    """The part itself, verbatim."""
    paths: frozenset[str]
    """Paths that it reads or writes, from the root of the tree."""
    modes: frozenset[str]
    """File modes that it names, e.g. `100644`."""
    hunks: tuple[list[str], ...]
    """The lines of each hunk but its header, marks included."""
    is_binary: bool

    @property
    def added(self) -> list[str]:
        """Lines that it adds, without their marks."""
        return [line[1:] for hunk in self.hunks for line in hunk if line.startswith("+")]


def read_patch(patch: str) -> list[FilePatch]:
    """Split a git patch into its files and check the policy on each. Raises PatchRefused."""
    if patch.startswith(NO_PATCH):
        raise PatchRefused(patch.partition("\n")[0].removeprefix(NO_PATCH))
    if len(to_bytes(patch)) > MAX_PATCH_BYTES:
        raise PatchRefused(f"larger than {MAX_PATCH_BYTES} bytes")
    files = [_read_file(blocks) for blocks in _split(patch)]
    for file in files:
        _check(file)
    return files


def to_bytes(patch: str) -> bytes:
    """The patch as git reads it; bytes that were not UTF-8 are back. Raises PatchRefused."""
    try:
        return patch.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise PatchRefused("not text in UTF-8") from None


def _check(file: FilePatch) -> None:
    if not file.paths:
        raise PatchRefused("a part that names no file")
    for path in file.paths:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise PatchRefused(f"path outside the tree: {path!r}")
        if any(part.lower() == ".git" for part in parts):
            raise PatchRefused(f"path inside .git: {path!r}")
    odd = file.modes - {"100644", "100755", "120000"}
    if odd:
        raise PatchRefused(f"only files and links may change, not mode {min(odd)}: {min(file.paths)!r}")
    # A link in binary form, which no one needs, counts as one to the root.
    target = "/" if file.is_binary else "".join(file.added)
    if "120000" in file.modes and not all(_stays_inside(path, target) for path in file.paths):
        raise PatchRefused(f"link out of the tree: {min(file.paths)!r}")


def _stays_inside(link: str, target: str) -> bool:
    """Does a relative link stay in the tree? Links that go through other links are not followed: `..` goes up one folder."""
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
    return not target.startswith("/") and reached != ".." and not reached.startswith("../")


def _split(patch: str) -> list[list[list[str]]]:
    """The part of each file, in blocks: a hunk is one, and every line outside of any hunk. Raises PatchRefused."""
    lines = patch.removesuffix("\n").split("\n") if patch else []
    parts: list[list[list[str]]] = []
    at = 0
    while at < len(lines):
        end = _hunk_end(lines, at) if HUNK.match(lines[at]) else at + 1
        if lines[at].startswith("diff --git "):
            parts.append([])
        elif not parts:
            raise PatchRefused(f"line {at + 1} is not what git writes: {lines[at][:60]!r}")
        parts[-1].append(lines[at:end])
        at = end
    return parts


def _hunk_end(lines: list[str], start: int) -> int:
    """Index one past the last line of a hunk, by the lengths that its header states. Raises PatchRefused."""
    header = HUNK.match(lines[start])
    assert header is not None
    old, new = (int(length or 1) for length in header.groups())
    at = start + 1
    while old > 0 or new > 0 or lines[at : at + 1] == ["\\ No newline at end of file"]:
        mark = lines[at][:1] if at < len(lines) else "end"
        if mark not in ("", " ", "-", "+", "\\"):
            raise PatchRefused(f"line {at + 1}: the hunk is shorter than it says")
        old -= mark in ("", " ", "-")
        new -= mark in ("", " ", "+")
        at += 1
    return at


def _read_file(blocks: list[list[str]]) -> FilePatch:
    """Read the part of one file, and see that nothing else stands in it. Raises PatchRefused."""
    paths, modes = _paired_name(blocks[0][0].removeprefix("diff --git ")), set[str]()
    is_binary = BEGIN_BINARY in blocks
    end = blocks.index(BEGIN_BINARY) if is_binary else len(blocks)
    for [line, *_] in blocks[1:end]:
        if name := NAME.fullmatch(line):
            paths |= _named(name)
        elif mode := MODE.fullmatch(line):
            modes.add(mode[1])
        elif not (HUNK.match(line) or OTHER_HEADER.fullmatch(line)):
            raise PatchRefused(f"not a line that git writes: {line[:60]!r}")
    if odd := [line for [line, *_] in blocks[end + 1 :] if not BINARY.fullmatch(line)]:
        raise PatchRefused(f"not a line of a binary part: {odd[0][:60]!r}")
    text = "".join(f"{line}\n" for block in blocks for line in block)
    hunks = tuple(block[1:] for block in blocks if HUNK.match(block[0]))
    return FilePatch(text, frozenset(paths), frozenset(modes), hunks, is_binary)


def _named(name: re.Match[str]) -> set[str]:
    if name["bare"] is not None:
        return {unquote(name["bare"])}
    path = unquote(name["prefixed"])
    return set() if path == "/dev/null" else {_without_prefix(path)}


def _paired_name(pair: str) -> set[str]:
    """`a/x b/x` → `{"x"}`; nothing where the two differ: then other headers must name the file."""
    first, second = unquote(pair[: len(pair) // 2]), unquote(pair[len(pair) // 2 + 1 :])
    same = _without_prefix(first) == _without_prefix(second) and "/" in first
    return {_without_prefix(first)} if same else set()


def _without_prefix(path: str) -> str:
    return path.partition("/")[2]


def unquote(name: str) -> str:
    """A path as git writes it: odd characters make it `"a/\\303\\244"`, in quotes with escapes."""
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    return os.fsdecode(ESCAPE.sub(_unescape, os.fsencode(name[1:-1])))


def _unescape(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 8)]) if escape[1].isdigit() else ESCAPES.get(escape[1], escape[1])
