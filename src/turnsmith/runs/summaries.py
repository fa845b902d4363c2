"""Summaries of the trajectories in a journal, without turns, arrays and patches.

A summary needs only the beginning and the end of a line. So a journal of gigabytes is read at the speed of the disk, and a
second reading starts where the first one ended. Nothing is written.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from turnsmith.io.files import parse_json
from turnsmith.runs.journal import ARRAY_BYTES, arrays_file
from turnsmith.types import Outcome

BEFORE_TURNS, AFTER_TURNS, TURN = b',"turns":[', b'],"stop_reason":"', b'{"start":'
"""Bytes around the turns in a line, and at the start of each turn. In JSON strings, quotation marks are escaped, so a text
cannot contain these bytes."""
CHUNK_BYTES = 4 * 2**20
"""Number of bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """Facts of one trajectory, and the position of its line in the journal."""

    trajectory_id: str
    instance_id: str
    index: int
    iteration: int
    stop_reason: str
    outcome: Outcome
    num_turns: int
    num_tokens: int | None
    """Number of tokens of the whole dialogue; None for messages of an endpoint, and if the arrays are missing."""
    duration_s: float
    has_patch: bool
    flags: tuple[str, ...]
    """Signs of an attempt to exploit the grader."""
    audit: str
    """Verdict of the audit; empty if the patch was not audited."""
    start: int
    """Byte offset of the line in the journal."""
    size: int
    """Number of bytes of the line, line end included."""


@dataclass
class JournalIndex:
    """Summaries of one journal, which `refresh` extends by the lines that were appended since."""

    journal: Path
    summaries: list[TrajectorySummary] = field(default_factory=list)
    """Summaries in the order of the journal; a repeated rollout has several."""
    faults: list[str] = field(default_factory=list)
    """One sentence about each damaged line, which has no summary."""
    end: int = 0
    """Number of bytes read so far, up to the end of a complete line."""

    def refresh(self) -> None:
        """Read the lines that were appended since the last call. An incomplete last line is left for the next call."""
        if not self.journal.exists():
            return
        with self.journal.open("rb") as lines, open_arrays(self.journal) as arrays:
            if os.fstat(lines.fileno()).st_size < self.end:  # the journal was replaced
                self.summaries, self.faults, self.end = [], [], 0
            for line in read_appended(lines, self.end):
                self._add(line, arrays)

    def list_latest(self) -> list[TrajectorySummary]:
        """List the last summary of each trajectory, since repeating a rollout or audit appends a line."""
        return [*{summary.trajectory_id: summary for summary in self.summaries}.values()]

    def _add(self, line: bytes, arrays: BinaryIO) -> None:
        try:
            self.summaries.append(summarise(line, self.end, arrays))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.faults.append(f"{self.journal} is damaged at byte {self.end} ({error}): remove that line")
        self.end += len(line)


def read_appended(file: BinaryIO, start: int) -> Iterator[bytes]:
    """Yield the complete lines of a file that begin at byte `start` or later."""
    file.seek(start)
    torn: list[bytes] = []
    while chunk := file.read(CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*torn, line, b"\n"])
            torn = []
        torn.append(rest)


def open_arrays(journal: Path) -> BinaryIO:
    """Open the arrays of a journal; the null device if they are missing."""
    path = arrays_file(journal)
    return (path if path.exists() else Path(os.devnull)).open("rb")


def summarise(line: bytes, start: int, arrays: BinaryIO) -> TrajectorySummary:
    """Summarise a line that begins at byte `start` of its journal. Raises ValueError, KeyError or TypeError if damaged."""
    opened, closed = line.find(BEFORE_TURNS), line.rfind(AFTER_TURNS)
    if min(opened, closed) < 0:
        raise ValueError("the line is not a trajectory")
    facts = parse_json((line[:opened] + b"," + line[closed + 2 :]).decode())
    grade: dict[str, Any] = facts.get("grade") or {}
    return TrajectorySummary(
        trajectory_id=facts["trajectory_id"],
        instance_id=facts["instance_id"],
        index=facts["index"],
        iteration=facts["iteration"],
        stop_reason=facts["stop_reason"],
        outcome=Outcome(facts["outcome"]),
        num_turns=line.count(TURN, opened, closed),
        num_tokens=count_tokens(arrays, **facts["arrays"]) if facts.get("form", "tokens") == "tokens" else None,
        duration_s=facts["duration_s"],
        has_patch=bool(facts["patch"]),
        flags=tuple(grade.get("flags", ())),
        audit=(grade.get("audit") or {}).get("verdict", ""),
        start=start,
        size=len(line),
    )


def count_tokens(arrays: BinaryIO, offset: int, size: int) -> int | None:
    """Count the tokens of a record of arrays by its size; None if the record is incomplete."""
    header = os.pread(arrays.fileno(), 8, offset)
    is_whole = len(header) == 8 and os.fstat(arrays.fileno()).st_size >= offset + size
    return (size - 8 - int.from_bytes(header, "little")) // ARRAY_BYTES if is_whole else None
