"""Journals of trajectories: a line of JSON per trajectory, and its arrays in a second file. Both are append-only.

```
trajectories.jsonl     one line of JSON per trajectory; its `arrays` gives offset and size of a record in
trajectories.arrays    safetensors records, one after the other, each aligned to 8 bytes
```

Arrays are written first, so a complete line has its arrays. Readers skip an incomplete last line, stream the lines and
memory-map the arrays.
"""

import hashlib
import json
import os
import time
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
"""Names of dtypes in the safetensors format → dtypes in NumPy."""
ARRAY_BYTES = sum(np.dtype(dtype).itemsize for dtype in DTYPES.values())
"""Bytes of the arrays for each token."""
SHORT_ID = 10
"""Length of short ids in base32 characters: among a million trajectories, two share an id with probability 1/2,000."""


@dataclass(frozen=True)
class JournalEntry:
    """Trajectory with its short id and the journal that holds it."""

    short_id: str
    """Digest of the trajectory's line in the journal."""
    journal: Path
    trajectory: Trajectory


def append_trajectory(journal: Path, trajectory: Trajectory) -> None:
    """Append a trajectory: first its arrays, then its line. A kill loses at most this trajectory."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    record = save(trajectory.arrays(), metadata={"trajectory_id": trajectory.trajectory_id})
    with arrays_file(journal).open("ab") as file:
        end = file.seek(0, os.SEEK_END)
        offset = end + -end % ALIGNMENT
        file.write(bytes(offset - end) + record)
    facts = trajectory.model_dump_json()
    append_line(journal, f'{facts[:-1]},"arrays":{{"offset":{offset},"size":{len(record)}}}}}')


def read_trajectories(journal: Path, containing: str = "") -> Iterator[Trajectory]:
    """Yield those trajectories of a journal whose line contains `containing`. Raises UsageError if such a line is damaged."""
    return (entry.trajectory for entry in read_entries(journal, containing=containing))


def read_last(journal: Path) -> list[Trajectory]:
    """Read the last record of each trajectory id. Repeating a rollout or audit appends a record of that id. Raises UsageError."""
    return [*{trajectory.trajectory_id: trajectory for trajectory in read_trajectories(journal)}.values()]


def read_entries(journal: Path, beginning: str = "", containing: str = "") -> Iterator[JournalEntry]:
    """Yield entries whose short id is `beginning` or whose id starts with it, if their line contains the text `containing`."""
    arrays = _map(arrays_file(journal))
    for place, line in read_lines(journal, containing):
        short_id = shorten(line)
        if short_id == beginning or beginning.encode() in line:
            trajectory = _read(line, arrays, place)
            if short_id == beginning or trajectory.trajectory_id.startswith(beginning):
                yield JournalEntry(short_id, journal, trajectory)


def read_entry(journal: Path, start: int, size: int) -> JournalEntry:
    """Read the trajectory whose line has `size` bytes from byte `start` on. Raises UsageError if line or arrays are damaged."""
    with journal.open("rb") as file:
        line = os.pread(file.fileno(), size, start)
    trajectory = _read(line, _map(arrays_file(journal)), f"{journal} at byte {start}")
    return JournalEntry(shorten(line), journal, trajectory)


def shorten(line: bytes) -> str:
    """Compute the short id of a journal's line: ten letters and digits of a digest."""
    return b32encode(hashlib.blake2b(line, digest_size=10).digest()).decode().lower()[:SHORT_ID]


def started_file(journal: Path) -> Path:
    """Return the path of the file with one line for each started rollout, which exists while the journal grows."""
    return journal.with_suffix(".started")


def append_start(journal: Path, trajectory: Trajectory) -> None:
    """Note that a rollout was started, for the pages of a running run."""
    fact = {"id": trajectory.trajectory_id, "task": trajectory.instance_id, "time": time.time()}
    with started_file(journal).open("a", encoding="utf-8") as file:
        file.write(json.dumps(fact) + "\n")


def read_starts(file: Path) -> list[dict[str, Any]]:
    """Read id, task and time (Unix, seconds) of the started rollouts; an incomplete last line is left out."""
    try:
        lines = file.read_text("utf-8").splitlines(keepends=True)
    except FileNotFoundError:  # the journal is complete
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def arrays_file(journal: Path) -> Path:
    return journal.with_suffix(".arrays")


def _map(path: Path) -> np.ndarray:
    """Memory-map the bytes of a file; empty if it is missing or empty."""
    if not path.exists() or not path.stat().st_size:
        return np.empty(0, np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def _read(line: bytes, arrays: np.ndarray, place: str) -> Trajectory:
    try:
        facts: dict[str, Any] = json.loads(line)
        if "token_ids" in facts:
            raise UsageError(f"{place} is in the format of Turnsmith 0.1: read it with turnsmith 0.1")
        position = facts.pop("arrays")
        return Trajectory(**facts, **_find_arrays(arrays, facts["trajectory_id"], **position))
    except (KeyError, TypeError, ValueError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else error
        raise UsageError(f"{place} is damaged ({fault}): remove that line, or put back a copy of the file") from None


def _find_arrays(arrays: np.ndarray, trajectory_id: str, offset: int, size: int) -> dict[str, np.ndarray]:
    """Return views of one trajectory's arrays. Raises ValueError if they are incomplete or of another trajectory."""
    record = arrays[offset : offset + size]
    if len(record) < size:
        held = f"the .arrays file beside it has {len(record)} of {size} bytes"
        raise ValueError(f"the arrays of {trajectory_id} are incomplete: {held}")
    start = 8 + int.from_bytes(record[:8].tobytes(), "little")
    header = json.loads(record[8:start].tobytes())
    owner = header.pop("__metadata__")["trajectory_id"]
    if owner != trajectory_id:
        raise ValueError(f"the arrays at byte {offset} belong to {owner}, not to {trajectory_id}")
    data = record[start:]
    return {name: data[slice(*tensor["data_offsets"])].view(DTYPES[tensor["dtype"]]) for name, tensor in header.items()}
