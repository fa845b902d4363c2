"""The working tree of a sandbox, seen from the host."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.comparison import compare
from turnsmith.sandboxes.finishing import finish_in_thread
from turnsmith.sandboxes.layers import copy_merged
from turnsmith.sandboxes.patch import format_patch


@dataclass(frozen=True)
class WorkingTree:
    """Where the working tree is, and what it was made of."""

    workdir: str
    """Path by which callers name it."""
    place: str
    """Path at which the supervisor finds it."""
    layers: tuple[Path, ...]
    """What it was made of, lowest first."""
    holder: int
    """Descriptor of the folder that holds what was written since."""
    name: str
    """Name in that folder of what belongs to the working tree."""
    is_stacked: bool
    """True where that lies over the layers; False where it is the whole tree."""

    async def diff(self) -> str:
        """Patch of the tree against its layers, taken from outside. Raises SandboxError."""
        with ExitStack() as held:
            try:
                holder = os.dup(self.holder)  # a stop meanwhile must not pull it away
                held.callback(os.close, holder)
                return await finish_in_thread(partial(self._take_diff, holder))
            except OSError as error:
                raise SandboxError(f"cannot take a diff: {error}") from None

    def _take_diff(self, holder: int) -> str:
        return format_patch(compare(self.layers, holder, self.name, is_stacked=self.is_stacked))

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""
        return _move(PurePosixPath(self.workdir, path), self.workdir, self.place)

    def show(self, path: str) -> str:
        """The way back."""
        return _move(PurePosixPath(path), self.place, self.workdir)


def copy_tree(layers: tuple[Path, ...], folder: Path, workdir: str, place: str, undo: ExitStack) -> WorkingTree:
    """A working tree that is a copy of the layers, as `tree` in a folder that stays open until `undo`. Raises OSError."""
    copy_merged(layers, folder / "tree")
    holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, holder)
    return WorkingTree(workdir, place, layers, holder, "tree", is_stacked=False)


def _move(path: PurePosixPath, old: str, new: str) -> str:
    return str(new / path.relative_to(old)) if old != new and path.is_relative_to(old) else str(path)
