"""An ordinary git checkout: what of it an agent sees, and how a patch gets into it.

Seen is what git tracks, as it stands in the working tree: changes that are not committed are part of it. What git does not track
is not seen, ignored or not, since that is where secrets lie. Submodules are left out. Nothing is read through a link.
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
"""So that no configuration, attribute or hook has a part in how a patch is read."""


@dataclass(frozen=True)
class Checkout:
    """A git checkout on this machine."""

    git: GitHistory

    @property
    def path(self) -> Path:
        """Its top."""
        return self.git.path

    @property
    def name(self) -> str:
        """That of its folder, as it may name files."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.path.name).lstrip(".-") or "checkout"


def open_checkout(path: Path) -> Checkout:
    """The checkout that a folder belongs to. Raises UsageError where there is none, or it is in the middle of a merge."""
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}: give a git checkout")
    try:
        top = GitHistory(path.resolve(), "").git("rev-parse", "--show-toplevel")
    except UsageError:
        raise UsageError(
            f"{path} is no git checkout: give one, or make one of it by `git init` and `git add`"
        ) from None
    root = Path(os.fsdecode(top.removesuffix(b"\n")))
    checkout = Checkout(GitHistory(root, root.name))
    if unmerged := checkout.git.git("ls-files", "--unmerged", "-z"):
        name = os.fsdecode(unmerged.split(b"\0")[0].partition(b"\t")[2])
        raise UsageError(f"{root} has unmerged files, e.g. {name}: finish the merge first, or undo it")
    return checkout


def read_tree(checkout: Checkout) -> dict[str, TreeFile]:
    """Every tracked file as it stands. Raises UsageError where there is none, or they are too much."""
    tree, room = dict[str, TreeFile](), MAX_TREE_BYTES
    with open_layers((checkout.path,)) as roots:
        [root] = roots
        for path in list_tracked(checkout):
            if file := _read(root, path, room):
                tree[path] = file
                room -= len(file.content)
    if not tree:
        raise UsageError(
            f"git tracks no file of {checkout.path}: an agent sees nothing else, so `git add` what it shall see"
        )
    return tree


def list_tracked(checkout: Checkout) -> list[str]:
    """Paths from the top, in order. Raises UsageError for a name that is no UTF-8."""
    paths = []
    for entry in checkout.git.git("ls-files", "--cached", "--stage", "-z").split(b"\0")[:-1]:
        facts, _, name = entry.partition(b"\t")
        try:
            paths += [] if facts.startswith(SUBMODULE) else [name.decode()]
        except UnicodeDecodeError:
            raise UsageError(f"{checkout.path} tracks the file {name!r}, whose name is no UTF-8: rename it") from None
    return paths


def _read(root: int, path: str, max_bytes: int = MAX_TREE_BYTES) -> TreeFile | None:
    """None where no file stands there, or not any more, or only by way of a link. Raises UsageError where it is too large."""
    try:
        file = read_file(Place(root, path), max_bytes)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        if error.errno == errno.EFBIG:
            raise UsageError(f"the tracked files hold more than {MAX_TREE_BYTES:,} bytes: too much to copy") from None
        raise
    return TreeFile(file.content, int(file.mode, 8)) if file else None


def apply_patch(checkout: Checkout, before: Mapping[str, TreeFile], patch: str) -> list[str]:
    """Put a patch into the working tree, whole or not at all; nothing is staged, nothing committed. Gives the files.

    Raises UsageError where it is none that may be applied, or a file that it touches is not what it was `before`.
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
    """Apply a patch to a folder as if it were in no repository. Raises PatchRefused; `error` if it does not apply."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), **NO_REPOSITORY}
    run_program(APPLY, fault, stdin=to_bytes(patch), cwd=folder, env=environment, error=error)


def find_changed(checkout: Checkout, before: Mapping[str, TreeFile], paths: Iterable[str]) -> list[str]:
    """Those of the files that are not what they were; where none was, nothing at all may be."""
    with open_layers((checkout.path,)) as roots:
        [root] = roots
        now = {path: _read(root, path) for path in paths}
    return [path for path in paths if now[path] != before.get(path) or (not now[path] and _is_taken(checkout, path))]


def _is_taken(checkout: Checkout, path: str) -> bool:
    return os.path.lexists(checkout.path / path)
