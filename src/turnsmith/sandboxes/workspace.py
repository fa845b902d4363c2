"""The working tree of a sandbox, seen from the host."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.layers import compare
from turnsmith.sandboxes.patch import format_patch
from turnsmith.sandboxes.patience import finish_in_thread


@dataclass(frozen=True)
class Workspace:
    """Where the working tree is, and how to compare it."""

    workdir: str
    """Path by which callers name it."""
    place: str
    """Path at which the supervisor finds it."""
    layers: tuple[Path, ...]
    """What the working tree was made of, lowest first."""
    written: tuple[int, ...]
    """Descriptors of folders that hold what was written since, the newest first."""
    folder: str
    """Name in each of them of what belongs to the working tree."""
    is_stacked: bool
    """True where that lies over the layers; False where it is the whole tree."""

    async def diff(self) -> str:
        """Patch of the tree against its layers, taken from outside. Raises SandboxError."""
        with ExitStack() as held:
            try:
                written = [hold(held, folder) for folder in self.written]  # a stop meanwhile must not pull them away
                return await finish_in_thread(partial(self._take_diff, written))
            except OSError as error:
                raise SandboxError(f"cannot take a diff: {error}") from None

    def _take_diff(self, written: list[int]) -> str:
        return format_patch(compare(self.layers, written, self.folder, stacked=self.is_stacked))

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""
        return _move(PurePosixPath(self.workdir, path), self.workdir, self.place)

    def show(self, path: str) -> str:
        """The way back."""
        return _move(PurePosixPath(path), self.place, self.workdir)


def _move(path: PurePosixPath, old: str, new: str) -> str:
    """The same path below another folder; unchanged where it is elsewhere."""
    return str(new / path.relative_to(old)) if old != new and path.is_relative_to(old) else str(path)


def hold(held: ExitStack, folder: int) -> int:
    """Another descriptor of it, until the end. Raises OSError."""
    held.callback(os.close, descriptor := os.dup(folder))
    return descriptor
