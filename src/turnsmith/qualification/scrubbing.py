"""A clean history for a tree that came with another: one more layer, whose `.git` of one commit hides all that lies below."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.qualification.git_stores import find_inner_stores, list_objects, opened
from turnsmith.qualification.trees import find_entries, find_files
from turnsmith.tasks.history import EXECUTABLE, REGULAR, SYMLINK, File, write_history

OPAQUE = "user.overlay.opaque"
"""Tells overlayfs that nothing of the layers below shows through a folder."""


def write_clean_history(target: Path, layers: Sequence[Path], base_commit: str) -> str:
    """Write such a layer into the new folder `target`; returns its base commit.

    The commit holds what the base commit tracked, as it stands in the tree; all there is where the history has no base commit.
    Other repositories inside the tree are emptied. Raises StoreUnreadable, UsageError.
    """
    entries = find_entries(layers)
    inner = find_inner_stores(entries)
    tracked = _find_tracked(layers, base_commit) or {path for path in entries if not _is_gits(path)}
    tree = {path: _to_file(file) for path, file in entries.items() if path in tracked and not _is_gits(path)}
    for store in [".git", *inner]:
        (target / store).mkdir(parents=True)
        _hide_below(target / store)
    return write_history(target / ".git", tree)


def _find_tracked(layers: Sequence[Path], base_commit: str) -> Mapping[str, str]:
    with opened(find_files(layers)) as repository:
        return list_objects(repository, base_commit).base_files


def _is_gits(path: str) -> bool:
    return ".git" in path.split("/")


def _to_file(file: Path) -> File:
    status = file.lstat()
    if stat.S_ISLNK(status.st_mode):
        return File(os.fsencode(file.readlink()), SYMLINK)
    return File(file.read_bytes(), EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR)


def _hide_below(folder: Path) -> None:
    try:
        os.setxattr(folder, OPAQUE, b"y")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be marked to hide what lies below ({error.strerror}): give --out on another file system"
        ) from None
