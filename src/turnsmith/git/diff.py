"""Differences between two working trees, each made of stacked folders, as git patches.

The host's git compares the files in a temporary repository, so no configuration, attribute, hook or filter of a user applies.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnsmith.errors import SandboxError, UsageError
from turnsmith.git.layers import Node, Place, open_layers, skipping_unreadable, walk
from turnsmith.git.one_commit import EXECUTABLE, REGULAR, SYMLINK, TreeFile
from turnsmith.io.programs import run_program
from turnsmith.runs.temporary import temporary_folder

EXCLUDED = {"__pycache__", ".pytest_cache", ".hypothesis"}
"""Names of folders left out of patches; `.git` in any case and `*.pyc` are left out too."""

MAX_BYTES = 16 << 20
"""Maximum total size in bytes of the compared files. Files are read in path order; the rest is left out."""

MAX_DEPTH = 100
"""Maximum directory depth of compared files; deeper files are left out."""

_DIFF = ["diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"]
_SETTINGS = ["-c", "core.protectNTFS=false", "-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none"]
"""Settings of git: allow any file name, write one pack file, skip fsync. The last two halve the time of a comparison."""

MAX_PATCH_BYTES = 2_000_000
"""Maximum size of a patch. Files larger than this are compared as binary data, since a text diff would be slow."""

KEPT_BYTES = 1 << 16
"""Number of bytes of an oversized patch that are kept for inspection."""

GIT_TIMEOUT_S = 300.0
"""Time limit of a git command in seconds, far more than the largest comparison takes."""

NO_PATCH = "no patch: "
"""Beginning of the text that replaces a patch that is too large."""


def check_git() -> None:
    """Raise UsageError if git is not on PATH."""
    if not shutil.which("git"):
        raise UsageError("there is no git on PATH: install it, e.g. by `apt install git`")


@dataclass(frozen=True)
class Change:
    """Change of a file; `path` is relative to the working tree. `old` is None for an added file, `new` for a removed one."""

    path: bytes
    old: TreeFile | None
    new: TreeFile | None


def compare(layers: tuple[Path, ...], written: Place, *, is_stacked: bool) -> list[Change]:
    """List the changes that turn the merged `layers` (lowest first) into the working tree at `written`. Raises OSError.

    If `is_stacked`, `written` is the upper layer of an overlay on them, else a complete tree. Unreadable files are skipped.
    """
    changes: list[Change] = []
    budget = MAX_BYTES
    with open_layers(layers) as roots:
        old = tuple(map(Place, reversed(roots)))
        new = (written, *old) if is_stacked else (written,)
        for path, before, after in walk(Node(old), Node(new), _belongs):
            with skipping_unreadable():
                files = [read_file(node.file, budget) if node.file else None for node in (before, after)]
                if files[0] != files[1]:
                    changes.append(Change(os.fsencode(path), *files))
                    budget -= sum(len(file.content) for file in files if file)
    return changes


def subtract(changes: Sequence[Change], earlier: Sequence[Change]) -> list[Change]:
    """List the changes from state A to state B of a tree. `earlier` leads from an original state to A, `changes` leads to B."""
    now, before = ({change.path: change for change in each} for each in (changes, earlier))
    found = []
    for path in sorted(now.keys() | before.keys()):
        old = before[path].new if path in before else now[path].old
        new = now[path].new if path in now else before[path].old
        if old != new:
            found.append(Change(path, old, new))
    return found


def _belongs(path: str) -> bool:
    return path.count("/") <= MAX_DEPTH and not is_excluded(path.rpartition("/")[2])


def is_excluded(name: str) -> bool:
    """Return True if files and folders of this name are left out of patches."""
    return name in EXCLUDED or name.endswith(".pyc") or name.lower() == ".git"


def read_file(place: Place, max_bytes: int) -> TreeFile | None:
    """Read a regular file or symlink; None if it is neither. Raises OSError, with EFBIG if it is too large."""
    with place.reached() as fd:
        status = os.fstat(fd)
        if stat.S_ISLNK(status.st_mode):
            return TreeFile(os.fsencode(os.readlink("", dir_fd=fd)), SYMLINK)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        with Path(f"/proc/self/fd/{fd}").open("rb") as file:
            return TreeFile(file.read(max_bytes), EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR)


def format_patch(changes: list[Change]) -> str:
    """Format changes as a git patch, or as a text with the patch's size if too large. Raises OSError, SandboxError."""
    if sum(2 * len(change.path) + 40 for change in changes) > MAX_PATCH_BYTES:  # lower bound: each path appears twice
        return refuse(f"a patch of {len(changes)} files is larger than {MAX_PATCH_BYTES} bytes")
    text = [change for change in changes if _is_text(change)]
    binary = [change for change in changes if not _is_text(change)]
    patch = _print_patch(text, "* diff\n") + _print_patch(binary, "* -diff\n")
    if len(patch) > MAX_PATCH_BYTES:
        return refuse(f"{len(patch)} bytes are more than {MAX_PATCH_BYTES}", patch)
    return patch.decode()


def refuse(reason: str, patch: bytes = b"") -> str:
    """Build the text that replaces an oversized patch: a line with the reason, then the patch's first bytes."""
    return f"{NO_PATCH}{reason}\n{patch[:KEPT_BYTES].decode(errors='ignore')}"


def _is_text(change: Change) -> bool:
    try:
        contents = [file.content.decode() for file in (change.old, change.new) if file]
    except UnicodeDecodeError:
        return False
    return all(len(content) <= MAX_PATCH_BYTES and "\0" not in content for content in contents)


def _print_patch(changes: list[Change], attributes: str) -> bytes:
    if not changes:
        return b""
    with temporary_folder("diff") as folder:  # minimal layout that git accepts as a bare repository
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/new\n")
        (folder / "info" / "attributes").write_text(attributes)
        _run_git(folder, ["fast-import", "--quiet"], b"".join(_commits(changes)))
        return _run_git(folder, [*_DIFF, "refs/heads/old", "refs/heads/new"])


def _commits(changes: list[Change]) -> Iterator[bytes]:
    """Yield input of `git fast-import`: one commit with the old files and one with the new files, both without parent."""
    for branch in ("old", "new"):
        yield f"commit refs/heads/{branch}\ncommitter a <a> 0 +0000\ndata 0\n".encode()
        for change in changes:
            if file := getattr(change, branch):
                yield _entry(change.path, file)


def _entry(path: bytes, file: TreeFile) -> bytes:
    quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    head = b'M %o inline "%s"\ndata %d\n' % (file.mode, quoted, len(file.content))
    return head + file.content + b"\n"


def _run_git(repository: Path, arguments: list[str], stdin: bytes = b"") -> bytes:
    home = {"GIT_DIR": str(repository), "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    return run_program(
        ["git", *_SETTINGS, *arguments],
        "cannot take a diff",
        stdin=stdin,
        env={"PATH": os.environ.get("PATH", os.defpath), **home},
        cwd=repository,
        timeout_s=GIT_TIMEOUT_S,
        error=SandboxError,
    )
