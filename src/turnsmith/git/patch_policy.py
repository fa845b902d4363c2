"""Policy for agents' patches: they change only files and symlinks inside the working tree, in exactly the form that git writes.

A patch in any other form is refused, because `git apply` could interpret it otherwise than Turnsmith does.
"""

import hashlib
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from turnsmith.errors import TurnsmithError
from turnsmith.git.diff import MAX_PATCH_BYTES, NO_PATCH
from turnsmith.git.patches import FILE, Block, scan_patch

MODE = re.compile(r"(?:old mode|new mode|new file mode|deleted file mode|index \S+) (\d{6})")
NAME = re.compile(r"(?:---|\+\+\+) (?P<prefixed>[^\t]*)\t?|(?:rename|copy) (?:from|to) (?P<bare>.*)")
OTHER_HEADER = re.compile(r"index \S+|(?:dis)?similarity index \d+%|")
BEGIN_BINARY = "GIT binary patch"
NO_NEWLINE = "\\ No newline at end of file"
BINARY = re.compile(r"(?:(?:literal|delta) \d+|[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+)?")
"""Pattern of a line of a binary change: kind and size, or bytes in base 85."""
ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)")
ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


class PatchRefused(TurnsmithError):
    """Error raised if a patch breaks the policy of this module; its message names the reason."""


def digest_patch(patch: str) -> str:
    """Return the SHA-256 of a patch in hex."""
    return hashlib.sha256(patch.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True)
class FilePatch:
    """Part of a patch that changes one file."""

    text: str
    """Lines of the patch about the file, verbatim."""
    paths: frozenset[str]
    """Paths that the change reads or writes, relative to the root of the tree; two for a rename."""
    modes: frozenset[str]
    """File modes in the header of the change, e.g. `100644`."""
    hunks: tuple[tuple[str, ...], ...]
    """Lines of each hunk with their marks (`+`, `-` or blank), without the hunk's header."""
    is_binary: bool

    @property
    def added(self) -> list[str]:
        """Return the lines that the patch adds to the file, without their `+`."""
        return [line[1:] for hunk in self.hunks for line in hunk if line.startswith("+")]


def read_patch(patch: str) -> list[FilePatch]:
    """Split a git patch into one part per file, and check each part. Raises PatchRefused if one breaks the policy."""
    if patch.startswith(NO_PATCH):
        raise PatchRefused(patch.partition("\n")[0].removeprefix(NO_PATCH))
    if len(to_bytes(patch)) > MAX_PATCH_BYTES:
        raise PatchRefused(f"larger than {MAX_PATCH_BYTES} bytes")
    files = [_read_file(blocks) for blocks in _split(patch)]
    for file in files:
        _check(file)
    return files


def to_bytes(patch: str) -> bytes:
    """Encode a patch as bytes; surrogate escapes become the original bytes. Raises PatchRefused for other surrogates."""
    try:
        return patch.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise PatchRefused("not text in UTF-8") from None


def _check(file: FilePatch) -> None:
    if not file.paths:
        raise PatchRefused("one of its diffs names no file")
    for path in file.paths:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise PatchRefused(f"path outside the tree: {path!r}")
        if any(part.lower() == ".git" for part in parts):
            raise PatchRefused(f"path inside .git: {path!r}")
    odd = file.modes - {"100644", "100755", "120000"}
    if odd:
        raise PatchRefused(f"only files and links may change, not mode {min(odd)}: {min(file.paths)!r}")
    # A link in binary form counts as a link to the root.
    target = "/" if file.is_binary else "".join(file.added)
    if "120000" in file.modes and not all(_stays_inside(path, target) for path in file.paths):
        raise PatchRefused(f"link out of the tree: {min(file.paths)!r}")


def _stays_inside(link: str, target: str) -> bool:
    """Return True if the target of the symlink at path `link` is in the tree, judged by the paths alone."""
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
    return not target.startswith("/") and reached != ".." and not reached.startswith("../")


def _split(patch: str) -> list[list[Block]]:
    """Split a patch into one list of blocks (hunks and other lines) per file. Raises PatchRefused."""
    parts: list[list[Block]] = []
    for block in scan_patch(patch):
        if block.lines[0].startswith(FILE):
            parts.append([])
        elif not parts:
            raise PatchRefused(f"line {block.number} is not what git writes: {block.lines[0][:60]!r}")
        if not block.is_complete or any(line.startswith("\\") and line != NO_NEWLINE for line in block.lines):
            raise PatchRefused(f"line {block.number}: the hunk does not have the stated number of lines")
        parts[-1].append(block)
    return parts


def _read_file(blocks: list[Block]) -> FilePatch:
    """Read the part of a patch that changes one file. Raises PatchRefused for any line that git does not write."""
    names = [block.lines[0] for block in blocks]
    paths, modes = _paired_name(names[0].removeprefix(FILE)), set[str]()
    is_binary = BEGIN_BINARY in names
    end = names.index(BEGIN_BINARY) if is_binary else len(names)
    for line in [block.lines[0] for block in blocks[1:end] if not block.header]:
        if name := NAME.fullmatch(line):
            paths |= _named(name)
        elif mode := MODE.fullmatch(line):
            modes.add(mode[1])
        elif not OTHER_HEADER.fullmatch(line):
            raise PatchRefused(f"not a line that git writes: {line[:60]!r}")
    if odd := [line for line in names[end + 1 :] if not BINARY.fullmatch(line)]:
        raise PatchRefused(f"not a line of a binary part: {odd[0][:60]!r}")
    text = "".join(f"{line}\n" for block in blocks for line in block.lines)
    hunks = tuple(block.lines[1:] for block in blocks if block.header)
    return FilePatch(text, frozenset(paths), frozenset(modes), hunks, is_binary)


def _named(name: re.Match[str]) -> set[str]:
    if name["bare"] is not None:
        return {unquote(name["bare"])}
    path = unquote(name["prefixed"])
    return set() if path == "/dev/null" else {_without_prefix(path)}


def _paired_name(pair: str) -> set[str]:
    """Return the file name in a `diff --git` line: `a/x b/x` → `{"x"}`; empty if there are two names, as in a rename."""
    first, second = unquote(pair[: len(pair) // 2]), unquote(pair[len(pair) // 2 + 1 :])
    same = _without_prefix(first) == _without_prefix(second) and "/" in first
    return {_without_prefix(first)} if same else set()


def _without_prefix(path: str) -> str:
    return path.partition("/")[2]


def unquote(name: str) -> str:
    """Decode a path that git may have quoted and escaped, e.g. `"a/\\303\\244"`."""
    if not (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    return os.fsdecode(ESCAPE.sub(_unescape, os.fsencode(name[1:-1])))


def _unescape(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 8)]) if escape[1].isdigit() else ESCAPES.get(escape[1], escape[1])
