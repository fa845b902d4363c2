"""Working tree of a sandbox, as the host reads it: paths, changes and patch."""

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
    """Working tree of a sandbox: its paths, the host folders of which it is made, and the sandbox's writes."""

    workdir: str
    """Path at which agents and tests find the working tree, such as `/testbed`."""
    place: str
    """Path of the working tree in the supervisor's file system. It differs from `workdir` in sandboxes without isolation."""
    layers: tuple[Path, ...]
    """Host folders of which the working tree is made, lowest first."""
    written: Place
    """Host folder with all writes of the sandbox: an overlay's upper directory, or the whole working tree."""
    is_stacked: bool
    """True if the folder `written` is an overlay's upper directory, False if it holds the whole working tree."""

    async def diff(self, earlier: Sequence[Change] = ()) -> str:
        """Return the sandbox's changes of the working tree, without `earlier` ones, as a patch. Raises SandboxError."""
        return await _take(lambda: format_patch(subtract(self._compare(), earlier) if earlier else self._compare()))

    async def list_changes(self) -> list[Change]:
        """List the sandbox's changes of the working tree. Raises SandboxError."""
        return await _take(self._compare)

    def _compare(self) -> list[Change]:
        return compare(self.layers, self.written, is_stacked=self.is_stacked)

    def locate(self, path: str) -> str:
        """Translate a caller's path, absolute or relative to the workdir, to the path in the sandbox's supervisor (process 1)."""
        return _move(PurePosixPath(self.workdir, path), self.workdir, self.place)

    def show(self, path: str) -> str:
        """Translate the supervisor's path below `place` to the agent's path below `workdir`."""
        return _move(PurePosixPath(path), self.place, self.workdir)


async def copy_tree(layers: tuple[Path, ...], folder: Path, workdir: str, place: str, undo: ExitStack) -> WorkingTree:
    """Copy stacked folders into the new `folder`, as the working tree of a sandbox. Raises OSError.

    `workdir` is the tree's path for agents, `place` its path for the supervisor. Closing `undo` closes `folder`.
    """
    await finish_in_thread(lambda: copy_merged(layers, folder))
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, root)
    return WorkingTree(workdir, place, layers, Place(root), is_stacked=False)


async def _take(work: Callable[[], T]) -> T:
    """Run `work`, which computes a diff, in a thread. Raises SandboxError instead of OSError."""
    try:
        return await finish_in_thread(work)
    except OSError as error:
        raise SandboxError(f"cannot take a diff: {error}") from None


def _move(path: PurePosixPath, old: str, new: str) -> str:
    return str(new / path.relative_to(old)) if old != new and path.is_relative_to(old) else str(path)
