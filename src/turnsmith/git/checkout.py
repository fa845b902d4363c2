"""Git checkout of a user: reads the tracked files for an agent, and applies the agent's patch.

Tracked files are read as they are in the working tree, with uncommitted changes. Untracked files, which may hold
secrets, and submodules are left out. Symlinks are not followed.
"""

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.git.diff import read_file
from turnsmith.git.history import MAX_TREE_BYTES, GitHistory
from turnsmith.git.layers import Place, open_layers
from turnsmith.git.one_commit import TreeFile
from turnsmith.git.patch_policy import PatchRefused, read_patch, to_bytes
from turnsmith.io.programs import run_program

SUBMODULE = b"160000"
APPLY = ("git", "apply", "--whitespace=nowarn", "-")
NO_REPOSITORY = {"GIT_DIR": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
"""Environment variables by which `git apply` finds no repository and no user's or system's configuration."""


@dataclass(frozen=True)
class Checkout:
    """Git checkout that belongs to the user."""

    git: GitHistory

    @property
    def path(self) -> Path:
        """Return the top folder of the checkout."""
        return self.git.path

    @property
    def name(self) -> str:
        """Return the name of the checkout's top folder; characters that are unsafe in file names become `-`."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.path.name).lstrip(".-") or "checkout"


def open_checkout(path: Path) -> Checkout:
    """Open the checkout that contains `path`. Raises UsageError if there is none, or if it has unmerged files."""
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}: give a git checkout")
    try:
        top = GitHistory(path.resolve(), "").git("rev-parse", "--show-toplevel")
    except UsageError:
        raise UsageError(
            f"{path} is not a git checkout: run `git init` and `git add` there, or give another folder"
        ) from None
    root = Path(os.fsdecode(top.removesuffix(b"\n")))
    checkout = Checkout(GitHistory(root, root.name))
    if unmerged := checkout.git.git("ls-files", "--unmerged", "-z"):
        name = os.fsdecode(unmerged.split(b"\0")[0].partition(b"\t")[2])
        raise UsageError(f"{root} has unmerged files, e.g. {name}: finish the merge first, or undo it")
    return checkout


def read_tree(checkout: Checkout) -> dict[str, TreeFile]:
    """Read all tracked files from the working tree. Raises UsageError if there are none, or too many bytes."""
    tree, room = dict[str, TreeFile](), MAX_TREE_BYTES
    with open_layers((checkout.path,)) as roots:
        [root] = roots
        for path in list_tracked(checkout):
            if file := _read(root, path, room):
                tree[path] = file
                room -= len(file.content)
    if not tree:
        raise UsageError(f"git tracks no file of {checkout.path}: `git add` the files that the agent needs")
    return tree


def list_tracked(checkout: Checkout) -> list[str]:
    """List the tracked paths in order, relative to the checkout. Raises UsageError if a name is not UTF-8."""
    paths = []
    for entry in checkout.git.git("ls-files", "--cached", "--stage", "-z").split(b"\0")[:-1]:
        facts, _, name = entry.partition(b"\t")
        try:
            paths += [] if facts.startswith(SUBMODULE) else [name.decode()]
        except UnicodeDecodeError:
            raise UsageError(f"{checkout.path} tracks the file {name!r}, whose name is not UTF-8: rename it") from None
    return paths


def _read(root: int, path: str, max_bytes: int = MAX_TREE_BYTES) -> TreeFile | None:
    """Read a tracked file; None if it is missing or in a linked folder. Raises UsageError if it is too large."""
    try:
        return read_file(Place(root, path), max_bytes)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        if error.errno == errno.EFBIG:
            raise UsageError(f"the tracked files hold more than {MAX_TREE_BYTES:,} bytes: too much to copy") from None
        raise


def apply_patch(checkout: Checkout, before: Mapping[str, TreeFile], patch: str) -> list[str]:
    """Apply a patch to the checkout, completely or not at all, without staging it. Return the changed paths.

    Raises UsageError if `patch_policy` refuses the patch, the patch does not apply, or one of its files differs from `before`.
    """
    try:
        paths = sorted({path for file in read_patch(patch) for path in file.paths})
    except PatchRefused as refusal:
        raise UsageError(f"the patch is not applied: {refusal}") from None
    if changed := find_changed(checkout, before, paths):
        raise UsageError(f"the patch is not applied: {changed[0]} of {checkout.path} has changed since it was copied")
    run_apply(patch, checkout.path, "the patch is not applied")
    return paths


def run_apply(patch: str, folder: Path, fault: str, error: type[TurnsmithError] = UsageError) -> None:
    """Apply a patch by git without a repository. Raises PatchRefused if it is not UTF-8, `error` if it does not apply."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), **NO_REPOSITORY}
    run_program(APPLY, fault, stdin=to_bytes(patch), cwd=folder, env=environment, error=error)


def find_changed(checkout: Checkout, before: Mapping[str, TreeFile], paths: Iterable[str]) -> list[str]:
    """List those of `paths` whose content in the checkout differs from `before`, or which are no longer files."""
    with open_layers((checkout.path,)) as roots:
        [root] = roots
        now = {path: _read(root, path) for path in paths}
    return [
        path
        for path in paths
        if now[path] != before.get(path) or (not now[path] and os.path.lexists(checkout.path / path))
    ]
