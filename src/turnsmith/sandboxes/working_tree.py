"""The working tree of a sandbox, seen from the host."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.launch import finish_in_thread
from turnsmith.sandboxes.layers import Place, copy_merged
from turnsmith.sandboxes.patch import compare, format_patch


@dataclass(frozen=True)
class WorkingTree:
    """Where the working tree is, and what it was made of."""

    workdir: str
    """Path by which callers name it."""
    place: str
    """Path at which the supervisor finds it."""
    layers: tuple[Path, ...]
    """What it was made of, lowest first."""
    written: Place
    """What was written since, over the layers; or the whole tree."""
    is_stacked: bool
    """True where that lies over the layers; False where it is the whole tree."""

    async def diff(self) -> str:
        """Patch of the tree against its layers, taken from outside. Raises SandboxError."""
        try:
            return await finish_in_thread(
                lambda: format_patch(compare(self.layers, self.written, is_stacked=self.is_stacked))
            )
        except OSError as error:
            raise SandboxError(f"cannot take a diff: {error}") from None

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""
        return _move(PurePosixPath(self.workdir, path), self.workdir, self.place)

    def show(self, path: str) -> str:
        """The way back."""
        return _move(PurePosixPath(path), self.place, self.workdir)


async def copy_tree(layers: tuple[Path, ...], folder: Path, workdir: str, place: str, undo: ExitStack) -> WorkingTree:
    """A working tree that is a copy of the layers in a new folder, which stays open until `undo`. Raises OSError."""
    await finish_in_thread(lambda: copy_merged(layers, folder))
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    undo.callback(os.close, root)
    return WorkingTree(workdir, place, layers, Place(root), is_stacked=False)


def _move(path: PurePosixPath, old: str, new: str) -> str:
    return str(new / path.relative_to(old)) if old != new and path.is_relative_to(old) else str(path)
