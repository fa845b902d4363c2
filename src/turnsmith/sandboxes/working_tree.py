"""Working tree of a sandbox, as the host sees it."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from turnsmith.errors import SandboxError
from turnsmith.git.diff import Change, compare, format_patch, subtract
from turnsmith.git.layers import Place, copy_merged
from turnsmith.sandboxes.launch import finish_in_thread

T = TypeVar("T")


@dataclass(frozen=True)
class WorkingTree:
    """Location and layers of a working tree."""

    workdir: str
    """Path in the sandbox, as callers use it."""
    place: str
    """Path that the supervisor uses."""
    layers: tuple[Path, ...]
    """Layers below the tree, lowest first."""
    written: Place
    """Upper layer, or the whole tree."""
    is_stacked: bool
    """True if `written` is an upper layer, False if it is the whole tree."""

    async def diff(self, earlier: Sequence[Change] = ()) -> str:
        """Return the patch of the tree against its layers and earlier changes, computed on the host. Raises SandboxError."""
        return await _take(lambda: format_patch(subtract(self._compare(), earlier) if earlier else self._compare()))

    async def list_changes(self) -> list[Change]:
        """List the changes of the tree against its layers. Raises SandboxError."""
        return await _take(self._compare)

    def _compare(self) -> list[Change]:
        return compare(self.layers, self.written, is_stacked=self.is_stacked)

    def locate(self, path: str) -> str:
        """Translate a caller's path, absolute or relative to the workdir, to the supervisor's path."""
        return _move(PurePosixPath(self.workdir, path), self.workdir, self.place)

    def show(self, path: str) -> str:
        """Translate a supervisor's path back to the caller's."""
        return _move(PurePosixPath(path), self.place, self.workdir)


async def copy_tree(layers: tuple[Path, ...], folder: Path, workdir: str, place: str, undo: ExitStack) -> WorkingTree:
    """Copy the layers into a new folder and keep it open until `undo` closes. Raises OSError."""
    await finish_in_thread(lambda: copy_merged(layers, folder))
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, root)
    return WorkingTree(workdir, place, layers, Place(root), is_stacked=False)


async def _take(work: Callable[[], T]) -> T:
    """Run the work of a diff in a thread that finishes. Raises SandboxError."""
    try:
        return await finish_in_thread(work)
    except OSError as error:
        raise SandboxError(f"cannot take a diff: {error}") from None


def _move(path: PurePosixPath, old: str, new: str) -> str:
    return str(new / path.relative_to(old)) if old != new and path.is_relative_to(old) else str(path)
