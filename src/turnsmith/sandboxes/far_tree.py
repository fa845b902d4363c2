"""The file tree of a sandbox that only its supervisor can see: listed, compared with what it was, and carried elsewhere."""

import asyncio
import errno
import json
import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.errors import SandboxError
from turnsmith.sandboxes import layers
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.trees import FAULTS
from turnsmith.sandboxes.layers import Change, File
from turnsmith.sandboxes.patience import draw

PATIENCE_S = 120.0
"""How long an answer may take where nobody is in the way."""
INTERFERENCE_S = 10.0
"""How long it may take before all who might be in the way are ended."""
GRACE_S = 30.0
PART_BYTES = 16 << 20
"""One answer carries about so much of a tree."""


class TreeTooLargeError(SandboxError):
    """The tree has more files than can be listed: the doing of those who live in it."""


@dataclass(frozen=True)
class Entry:
    """What stands at a path."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int = field(compare=False)
    """Of a file with more names than one; else 0."""
    is_ours: bool = field(compare=False)
    """Does it belong to the sandbox's user?"""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Can it stand in a patch?"""
        return stat.S_ISREG(self.mode) or stat.S_ISLNK(self.mode)

    def is_same(self, other: "Entry | None") -> bool:
        """Has nobody touched it? Whoever changes anything moves the time of change, which no one can set."""
        if other and self.is_folder and other.is_folder:
            return (self.mode, self.mtime_ns) == (other.mode, other.mtime_ns)
        return self == other


Listing = dict[str, Entry]
"""By path, relative to the top of the tree."""


@dataclass(frozen=True)
class FarTree:
    """All below one folder of a sandbox. Its methods raise SandboxError."""

    connection: Connection
    root: str

    async def list(self) -> Listing:
        """Raises TreeTooLargeError, too."""
        return await asyncio.to_thread(read_listing, await self._ask("list"))

    async def fetch(self, entries: Listing) -> AsyncIterator[bytes]:
        """Records of these entries, in their order, many at a time; what vanished meanwhile is left out."""
        async for headers in draw(_batches(entries)):
            records = await self._ask("fetch", json.dumps(headers).encode())
            await asyncio.to_thread(check_records, records, headers)
            yield records

    async def unpack(self, records: bytes) -> None:
        """Put records in place."""
        await self._ask("unpack", records)

    async def _ask(self, operation: str, content: bytes = b"") -> bytes:
        """What is answered; where somebody inside may have been in the way, all are ended, and it is asked again."""
        number, payload = await self._request(operation, content, INTERFERENCE_S)
        if number in FAULTS:
            await self.connection.request({"op": "end"}, patience_s=PATIENCE_S)
            number, payload = await self._request(operation, content, PATIENCE_S)
        if number == errno.E2BIG:
            raise TreeTooLargeError(f"the tree at {self.root} has more files than can be listed")
        if number:
            raise SandboxError(f"cannot {operation} the files at {self.root}: {os.strerror(number)}")
        return payload

    async def _request(self, operation: str, content: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Error number and payload of an answer."""
        request = {"op": operation, "path": self.root, "timeout_s": timeout_s}
        answer, payload = await self.connection.request(request, content, patience_s=timeout_s + GRACE_S)
        return answer["errno"], payload


@contextmanager
def distrusting(what: str) -> Iterator[None]:
    """Hostile bytes fail in more ways than a list can name. Raises SandboxError in place of each."""
    try:
        yield
    except Exception as error:
        raise SandboxError(f"the sandbox sent what is no {what}: {error!r}") from None


def read_listing(answer: bytes) -> Listing:
    """Raises SandboxError."""
    with distrusting("listing"):
        return {path: Entry(*values) for path, *values in map(json.loads, answer.splitlines())}


def check_paths(listing: Listing) -> None:
    """Does none lead out of the tree, by itself or through a link? Raises SandboxError."""
    with distrusting("listing"):
        for path in listing:
            folder, _, name = path.rpartition("/")
            if name in ("", ".", "..") or "\0" in name or (folder and not listing[folder].is_folder):
                raise ValueError(path)


def check_records(records: bytes, asked: list[wire.Header]) -> None:
    """Raises SandboxError where there is anything among them that was not asked for."""
    with distrusting("part of its tree"):
        wanted = {(header["path"], header["offset"]): header for header in asked}
        for header, content in wire.unpack(records):
            if header != wanted.pop((header["path"], header["offset"])) or len(content) > header["length"]:
                raise ValueError(header)


def _batches(entries: Listing) -> Iterator[list[wire.Header]]:
    """Headers of records, those of about PART_BYTES at a time."""
    batch, waiting_bytes = [], 0
    for header in _headers(entries):
        batch.append(header)
        waiting_bytes += len(wire.pack(header)) + header["length"]
        if waiting_bytes >= PART_BYTES:
            yield batch
            batch, waiting_bytes = [], 0
    if batch:
        yield batch


def _headers(entries: Listing) -> Iterator[wire.Header]:
    """At least one for each entry, in their order; the second name of a file refers to the first."""
    names: dict[int, str] = {}
    for path, entry in entries.items():
        first = names.setdefault(entry.inode, path) if entry.inode and entry.is_file else path
        size = entry.size if first == path and entry.is_file else 0
        for offset in range(0, max(size, 1), PART_BYTES):
            length, same_as = min(size - offset, PART_BYTES), "" if first == path else first
            yield make_header(path, entry.mode, entry.mtime_ns, offset=offset, length=length, same_as=same_as)


def make_header(
    path: str, mode: int = 0, mtime_ns: int = 0, *, offset: int = 0, length: int = 0, same_as: str = ""
) -> wire.Header:
    """The header of a record; without a mode it says that what was there is gone."""
    return {"path": path, "mode": mode, "mtime_ns": mtime_ns, "offset": offset, "length": length, "same_as": same_as}


def join(records: Iterable[bytes]) -> Iterator[bytes]:
    """Records, about PART_BYTES at a time."""
    batch = bytearray()
    for record in records:
        batch += record
        if len(batch) >= PART_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


async def find_changes(tree: FarTree, before: Listing, base: tuple[Path, ...]) -> list[Change]:
    """Changes of the tree against its base, layers on this machine; `before` is how it stood when it was like them.

    What a patch leaves out and the limits on sizes are those of any comparison.
    """
    now = await tree.list()
    differing = await asyncio.to_thread(select_differing, before, now)
    present = {path: now[path] for path in differing if path in now and now[path].is_file}
    new = {path: file async for path, file in _fetch_files(tree, present)}
    old = await asyncio.to_thread(layers.read_files, base, differing)
    return [
        Change(os.fsencode(path), old.get(path), new.get(path)) for path in differing if old.get(path) != new.get(path)
    ]


def select_differing(before: Listing, now: Listing) -> list[str]:
    """Paths of files that may differ and may stand in a patch, in order, within what one comparison reads."""
    paths, budget_bytes = [], layers.MAX_TOTAL_BYTES
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path), now.get(path)
        if (old and old.is_same(new)) or not is_shown(path):
            continue
        sizes = [entry.size for entry in (old, new) if entry and entry.is_file]
        if sizes and all(size <= layers.MAX_FILE_BYTES for size in sizes) and sum(sizes) <= budget_bytes:
            budget_bytes -= sum(sizes)
            paths.append(path)
    return paths


def is_shown(path: str) -> bool:
    """May it stand in a patch?"""
    parts = path.split("/")
    return len(parts) <= layers.MAX_DEPTH and not any(map(layers.is_excluded, parts))


async def _fetch_files(tree: FarTree, entries: Listing) -> AsyncIterator[tuple[str, File]]:
    async for records in tree.fetch(entries):
        for header, content in wire.unpack(records):
            yield header["path"], File(layers.git_mode(header["mode"]), content)


def pack_layers(stack: tuple[Path, ...]) -> Iterator[bytes]:
    """Records of the merged view of layers, lowest first; folders last and the innermost first, since one may be locked."""
    folders = []
    for path, source in layers.walk_merged(stack):
        status = source.lstat()
        header = make_header(path, status.st_mode, status.st_mtime_ns)
        if stat.S_ISDIR(status.st_mode):
            folders.append(wire.pack(header))
        elif stat.S_ISLNK(status.st_mode):
            yield wire.pack(header, os.fsencode(source.readlink()))
        else:
            yield from _parts(header, source)
    yield from reversed(folders)


def pack_hidden(base: tuple[Path, ...], stack: tuple[Path, ...]) -> list[bytes]:
    """Records that take away what the base shows and, with layers over it, would not."""
    if not base or not stack:
        return []
    shown = {path for path, _ in layers.walk_merged((*base, *stack))}
    return [wire.pack(make_header(path)) for path, _ in layers.walk_merged(base) if path not in shown]


def _parts(header: wire.Header, source: Path) -> Iterator[bytes]:
    """Records of one file; an empty one has one too."""
    with source.open("rb") as file:
        yield wire.pack(header, file.read(PART_BYTES))
        while part := file.read(PART_BYTES):
            yield wire.pack({**header, "offset": file.tell() - len(part)}, part)
