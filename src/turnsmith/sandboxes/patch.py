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
_SETTINGS = ["core.quotePath=true", "core.protectNTFS=false", "core.protectHFS=false"]
_HASTE = ["fastimport.unpackLimit=1", "core.fsync=none"]
"""The repository lives for milliseconds: one file for all objects, and no wait for the disk, halve them."""

MAX_TEXT_BYTES = 4 << 20
"""A larger file is compared as binary."""

MAX_PATCH_BYTES = 2_000_000
"""No grader takes a larger one."""

KEPT_BYTES = 1 << 16
"""So much of a larger one is kept for people to read."""

GIT_TIMEOUT_S = 300.0
"""Many times what a comparison of the largest size takes on a busy machine."""

NO_PATCH = "no patch: "
"""How that begins which stands for a patch that cannot be had."""


def format_patch(changes: list[Change]) -> str:
    """A patch that `git apply` accepts, or, where it would be too large, what no grader takes. Raises SandboxError."""
    changes = [change for change in changes if _is_expressible(change)]
    if sum(map(_least_bytes, changes)) > MAX_PATCH_BYTES:
        return refuse(f"{len(changes)} files make more than {MAX_PATCH_BYTES} bytes")
    binary = [change for change in changes if not _is_text(change)]
    text = [change for change in changes if _is_text(change)]
    patch = _print_patch(text, "* diff\n") + _print_patch(binary, "* -diff\n")
    if len(patch) > MAX_PATCH_BYTES:
        return refuse(f"{len(patch)} bytes are more than {MAX_PATCH_BYTES}", patch)
    return patch.decode()


def refuse(reason: str, patch: bytes = b"") -> str:
    """What stands for a patch that cannot be had: a line that git never writes, and how the patch begins."""
    return f"{NO_PATCH}{reason}\n{patch[:KEPT_BYTES].decode(errors='ignore')}"


def _least_bytes(change: Change) -> int:
    """Its path stands twice in a patch, between words of so many bytes."""
    return 2 * len(change.path) + 40


def _is_expressible(change: Change) -> bool:
    """Git refuses a link named .gitmodules, whoever asks."""
    name = change.path.rpartition(b"/")[2].lower()
    files = [file for file in (change.old, change.new) if file]
    return name != b".gitmodules" or all(file.mode != "120000" for file in files)


def _is_text(change: Change) -> bool:
    """Only what is text in Unicode may stand in a patch as text, since the patch is a string; nor what is slow to compare."""
    contents = [file.content for file in (change.old, change.new) if file]
    return all(len(content) <= MAX_TEXT_BYTES and _is_unicode(content) for content in contents)


def _is_unicode(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _print_patch(changes: list[Change], attributes: str) -> bytes:
    if not changes:
        return b""
    with temporary_folder("diff") as folder:
        _make_repository(folder, attributes)
        _run_git(folder, ["fast-import", "--quiet"], b"".join(_commits(changes)))
        return _run_git(folder, [*_DIFF, "refs/heads/old", "refs/heads/new"], b"")


def _make_repository(folder: Path, attributes: str) -> None:
    """The least that git takes for a bare repository."""
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/new\n")
    (folder / "info" / "attributes").write_text(attributes)


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


def _run_git(repository: Path, arguments: list[str], stdin: bytes) -> bytes:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_DIR": str(repository),
        "HOME": str(repository),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",
    }
    try:
        finished = subprocess.run(
            ["git", *(word for setting in (*_SETTINGS, *_HASTE) for word in ("-c", setting)), *arguments],
            input=stdin,
            env=environment,
            cwd=repository,
            capture_output=True,
            check=True,
            timeout=GIT_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise SandboxError("cannot take a diff: git is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"cannot take a diff: git did not end within {GIT_TIMEOUT_S:.0f} s") from None
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"cannot take a diff: git said {error.stderr.decode(errors='replace').strip()!r}") from None
    return finished.stdout
