"""The files of a container, as the host sees them: the working tree and its patch, snapshots, what an image holds."""

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.far_tree import (
    Entry,
    FarTree,
    Listing,
    TreeTooLargeError,
    check_paths,
    find_changes,
    is_shown,
    join,
    make_header,
)
from turnsmith.sandboxes.inside import trees, wire
from turnsmith.sandboxes.layers import MAX_FILE_BYTES
from turnsmith.sandboxes.patch import format_patch, refuse
from turnsmith.sandboxes.patience import finish_in_thread
from turnsmith.sandboxes.runtime import cache_folder, prepare_folder


@dataclass(frozen=True)
class ContainerWorkspace:
    """The working tree: only those inside can see it, so it is asked of the supervisor, and compared here."""

    tree: FarTree
    before: Listing
    """How it stood at the start."""
    base: tuple[Path, ...]
    """What it was made of, on this machine, lowest first."""

    async def diff(self) -> str:
        """Patch of the tree against its base. Raises SandboxError."""
        try:
            changes = await find_changes(self.tree, self.before, self.base)
            return await asyncio.to_thread(format_patch, changes)
        except TreeTooLargeError as error:
            return refuse(str(error))
        except OSError as error:
            raise SandboxError(f"cannot take a diff: {error}") from None

    def locate(self, path: str) -> str:
        """From a caller's path, absolute or relative to the workdir, to the supervisor's."""
        return str(PurePosixPath(self.tree.root, path))

    def show(self, path: str) -> str:
        """The way back."""
        return path


@dataclass
class ContainerSnapshot:
    """What was changed in a container since it started, as records in a file without a name, and what is gone."""

    spec: SandboxSpec
    changed: IO[bytes] | None = None
    batch_bytes: list[int] = field(default_factory=list)
    """Lengths of what is to be unpacked at once, one after the other."""
    is_dropped: bool = field(default=False, init=False)

    def read(self) -> Iterator[bytes]:
        """All records, batch by batch; many may read at once."""
        offset = 0
        for length in self.batch_bytes:
            assert self.changed
            yield os.pread(self.changed.fileno(), length, offset)
            offset += length

    def drop(self) -> None:
        """Let go of it. Safe to call twice."""
        self.is_dropped = True
        if self.changed:
            self.changed.close()


async def take_snapshot(spec: SandboxSpec, tree: FarTree, before: Listing, max_bytes: int) -> ContainerSnapshot:
    """Carry out what differs from `before` in the whole tree of a container where nobody is at work. Raises SandboxError."""
    now = await tree.list()
    changed = {path: entry for path, entry in now.items() if entry.is_ours and not entry.is_same(before.get(path))}
    if sum(entry.size for entry in changed.values() if not entry.is_folder) > max_bytes:
        raise SandboxError(f"the sandbox has written more than the {max_bytes >> 20} MB that a snapshot holds")
    snapshot = ContainerSnapshot(spec, tempfile.TemporaryFile(prefix="turnsmith-snapshot-"))  # noqa: SIM115  (until `drop`)
    with contextlib.ExitStack() as undo:
        undo.callback(snapshot.drop)
        for batch in join(wire.pack(make_header(path)) for path in find_gone(before, now)):
            keep(snapshot, batch)
        async for batch in tree.fetch(in_order(changed)):
            keep(snapshot, batch)
        undo.pop_all()
    return snapshot


def keep(snapshot: ContainerSnapshot, batch: bytes) -> None:
    assert snapshot.changed
    snapshot.changed.write(batch)
    snapshot.changed.flush()
    snapshot.batch_bytes.append(len(batch))


def find_gone(before: Listing, now: Listing) -> list[str]:
    """Paths to be taken away before anything is put in place: what is no longer there, or is of another kind."""
    return [
        path
        for path, entry in before.items()
        if path not in now or stat.S_IFMT(now[path].mode) != stat.S_IFMT(entry.mode)
    ]


def in_order(entries: Listing) -> Listing:
    """Folders last and the innermost first, since one may be locked."""
    folders = sorted((path for path, entry in entries.items() if entry.is_folder), reverse=True)
    return {path: entries[path] for path in [*(path for path in entries if not entries[path].is_folder), *folders]}


def under(folder: str, listing: Listing) -> Listing:
    """A listing of a folder as a part of that of the root."""
    return {f"{folder.strip('/')}/{path}": entry for path, entry in listing.items()}


async def keep_base(tree: FarTree, listing: Listing, name: str) -> Path:
    """The working tree of an image, without what no patch shows, as a folder of the cache; carried out once for each image.

    Raises SandboxError, also where the image would have us write elsewhere.
    """
    if (cache_folder() / name).is_dir():
        return cache_folder() / name
    check_paths(listing)
    shown = {path: entry for path, entry in listing.items() if is_kept(path, entry)}
    batches = [records async for records in tree.fetch(in_order(shown))]

    def fill(folder: Path) -> None:
        for records in batches:
            trees.unpack(str(folder), records)

    return await finish_in_thread(partial(prepare_folder, name, fill))


def is_kept(path: str, entry: Entry) -> bool:
    return is_shown(path) and entry.size <= MAX_FILE_BYTES and (entry.is_file or entry.is_folder)
