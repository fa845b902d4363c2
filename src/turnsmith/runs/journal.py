"""Journals of trajectories: a line of facts for each, and its arrays in a file beside it. Both only grow, and survive a kill.

```
trajectories.jsonl     one line of JSON per trajectory; its `arrays` name a place in
trajectories.arrays    records of safetensors, one after the other, each beginning at a multiple of 8 bytes
```

Arrays are written first, so a line that is whole has its arrays; what a kill tears is passed over. Readers stream, and map the
arrays into memory: what nobody looks at is not read from the disk.
"""

import hashlib
import json
import os
from base64 import b32encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors.numpy import save

from turnsmith.errors import UsageError, first_fault
from turnsmith.runs.folder import append_line, read_lines
from turnsmith.types import Trajectory

ALIGNMENT = 8
DTYPES = {"I32": np.int32, "BOOL": np.bool_, "F32": np.float32}
"""Names of safetensors for what we write."""
SHORT_ID = 10
"""Characters of five bits each. Two of a million trajectories share an id once in 2,000 runs."""


@dataclass(frozen=True)
class JournalEntry:
    """A trajectory as it stands in a journal."""

    short_id: str
    """A digest of its line, which nothing rewrites: it stays the same where the journal is moved."""
    journal: Path
    trajectory: Trajectory


def append_trajectory(journal: Path, trajectory: Trajectory) -> None:
    """Add a trajectory: arrays, then the line that names them. A kill loses at most this one."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    record = save(trajectory.arrays(), metadata={"trajectory_id": trajectory.trajectory_id})
    with arrays_file(journal).open("ab") as file:
        end = file.seek(0, os.SEEK_END)
        offset = end + -end % ALIGNMENT
        file.write(bytes(offset - end) + record)
    facts = trajectory.model_dump_json()
    append_line(journal, f'{facts[:-1]},"arrays":{{"offset":{offset},"size":{len(record)}}}}}')


def read_trajectories(journal: Path, containing: str = "") -> Iterator[Trajectory]:
    """Every trajectory in the order written, or those whose line contains a text. Raises UsageError where one is damaged."""
    arrays = _map(arrays_file(journal))
    for place, line in read_lines(journal, containing):
        yield _read(line, arrays, place)


def read_last(journal: Path) -> list[Trajectory]:
    """Read the last line of each trajectory: one that is made or audited again has several. Raises UsageError."""
    return [*{trajectory.trajectory_id: trajectory for trajectory in read_trajectories(journal)}.values()]


def read_entries(journal: Path, beginning: str = "", containing: str = "") -> Iterator[JournalEntry]:
    """Read the trajectory with a short id, or those whose long ids begin so, of lines that contain a text.

    Raises UsageError where one is damaged.
    """
    arrays = _map(arrays_file(journal))
    for place, line in read_lines(journal, containing):
        short_id = shorten(line)
        if short_id == beginning or beginning.encode() in line:
            trajectory = _read(line, arrays, place)
            if beginning == short_id or trajectory.trajectory_id.startswith(beginning):
                yield JournalEntry(short_id, journal, trajectory)


def shorten(line: bytes) -> str:
    """Digest a line of a journal into letters and digits that can be copied whole."""
    return b32encode(hashlib.blake2b(line, digest_size=10).digest()).decode().lower()[:SHORT_ID]


def arrays_file(journal: Path) -> Path:
    """The file beside a journal."""
    return journal.with_suffix(".arrays")


def _map(path: Path) -> np.ndarray:
    """The bytes of a file, read as they are asked for."""
    if not path.exists() or not path.stat().st_size:
        return np.empty(0, np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def _read(line: bytes, arrays: np.ndarray, place: str) -> Trajectory:
    try:
        facts: dict[str, Any] = json.loads(line)
        if "token_ids" in facts:
            raise UsageError(
                f"{place} was written by Turnsmith 0.1, with tokens in its lines: read it with turnsmith 0.1"
            )
        where = facts.pop("arrays")
        return Trajectory(**facts, **_find_arrays(arrays, facts["trajectory_id"], **where))
    except (KeyError, TypeError, ValueError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else error
        raise UsageError(f"{place} is damaged ({fault}): remove that line, or put back a copy of the file") from None


def _find_arrays(arrays: np.ndarray, trajectory_id: str, offset: int, size: int) -> dict[str, np.ndarray]:
    """Views of the arrays of one record. Raises ValueError where it is torn, or another trajectory's."""
    record = arrays[offset : offset + size]
    if len(record) < size:
        raise ValueError(f"the arrays of {trajectory_id} are torn: {len(record)} of {size} bytes are there")
    start = 8 + int.from_bytes(record[:8].tobytes(), "little")
    header = json.loads(record[8:start].tobytes())
    owner = header.pop("__metadata__")["trajectory_id"]
    if owner != trajectory_id:
        raise ValueError(f"the arrays at byte {offset} belong to {owner}, not to {trajectory_id}")
    data = record[start:]
    return {name: data[slice(*tensor["data_offsets"])].view(DTYPES[tensor["dtype"]]) for name, tensor in header.items()}
