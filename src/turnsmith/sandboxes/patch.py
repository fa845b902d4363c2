"""Changes as the patch that git itself would print, made by the host's git in an empty repository of our own.

No configuration, attribute, hook or filter of anyone else takes part, and the sandbox's git is never asked.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.comparison import Change, GitFile
from turnsmith.temporary import temporary_folder

_DIFF = ["diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"]
_SETTINGS = ["-c", "core.protectNTFS=false", "-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none"]
"""Any name may stand in a patch. One file for all objects, and no wait for the disk, halve the time that it takes."""

MAX_PATCH_BYTES = 2_000_000
"""No grader takes a larger one; and what is larger than this is compared as binary, which is quick."""

KEPT_BYTES = 1 << 16
"""So much of a larger one is kept for people to read."""

GIT_TIMEOUT_S = 300.0
"""Many times what a comparison of the largest size takes on a busy machine."""

NO_PATCH = "no patch: "
"""How that begins which stands for a patch that cannot be had."""


def format_patch(changes: list[Change]) -> str:
    """A patch as git writes it, or, where it would be too large, what no grader takes. Raises OSError, SandboxError."""
    if sum(2 * len(change.path) + 40 for change in changes) > MAX_PATCH_BYTES:  # paths alone, twice between words
        return refuse(f"{len(changes)} files make more than {MAX_PATCH_BYTES} bytes")
    text = [change for change in changes if _is_text(change)]
    binary = [change for change in changes if not _is_text(change)]
    patch = _print_patch(text, "* diff\n") + _print_patch(binary, "* -diff\n")
    if len(patch) > MAX_PATCH_BYTES:
        return refuse(f"{len(patch)} bytes are more than {MAX_PATCH_BYTES}", patch)
    return patch.decode()


def refuse(reason: str, patch: bytes = b"") -> str:
    """What stands for a patch that cannot be had: a line that git never writes, and how the patch begins."""
    return f"{NO_PATCH}{reason}\n{patch[:KEPT_BYTES].decode(errors='ignore')}"


def _is_text(change: Change) -> bool:
    """Only what is Unicode may stand in a patch as text, since the patch is a string."""
    try:
        contents = [file.content.decode() for file in (change.old, change.new) if file]
    except UnicodeDecodeError:
        return False
    return all(len(content) <= MAX_PATCH_BYTES and "\0" not in content for content in contents)


def _print_patch(changes: list[Change], attributes: str) -> bytes:
    if not changes:
        return b""
    with temporary_folder("diff") as folder:  # the least that git takes for a bare repository
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/new\n")
        (folder / "info" / "attributes").write_text(attributes)
        _run_git(folder, ["fast-import", "--quiet"], b"".join(_commits(changes)))
        return _run_git(folder, [*_DIFF, "refs/heads/old", "refs/heads/new"])


def _commits(changes: list[Change]) -> Iterator[bytes]:
    """Two commits without parents, for fast-import: what was, what is."""
    for branch in ("old", "new"):
        yield f"commit refs/heads/{branch}\ncommitter a <a> 0 +0000\ndata 0\n".encode()
        for change in changes:
            if file := getattr(change, branch):
                yield _entry(change.path, file)


def _entry(path: bytes, file: GitFile) -> bytes:
    quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    head = b'M %s inline "%s"\ndata %d\n' % (file.mode.encode(), quoted, len(file.content))
    return head + file.content + b"\n"


def _run_git(repository: Path, arguments: list[str], stdin: bytes = b"") -> bytes:
    home = {"GIT_DIR": str(repository), "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        finished = subprocess.run(
            ["git", *_SETTINGS, *arguments],
            input=stdin,
            env={"PATH": os.environ.get("PATH", os.defpath), **home},
            cwd=repository,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"cannot take a diff: {error}") from None
    if finished.returncode:
        raise SandboxError(f"cannot take a diff: git said {finished.stderr.decode(errors='replace').strip()!r}")
    return finished.stdout
