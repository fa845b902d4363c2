"""Import of public data sets into a task file, row by row; an interrupted import can be continued.

```
DIR/tasks.jsonl      tasks; conversations.jsonl for trajectory data sets
DIR/refused.jsonl    one line per refused row: set, place, id, reason, details
```

The next import tries refused rows again: the user may have added files that they need, e.g. the scripts of SWE-bench Pro.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic_core import PydanticSerializationError

from turnsmith.errors import UsageError
from turnsmith.io.files import write_file
from turnsmith.runs.folder import append_line, cut_torn_line, hold, read_lines
from turnsmith.tasks.characters import mend
from turnsmith.tasks.sets.base import PublicSet, Refused, to_record
from turnsmith.tasks.sets.reading import FoundRow, RowFile, RowSource
from turnsmith.types import Task

REFUSED_NAME = "refused.jsonl"
ID_FIRST = (b'{"instance_id":', b'{"conversation_id":')
"""First bytes of the lines that Turnsmith writes: the id comes first, so it is read without parsing the line."""
IMPORTED, KEPT = "imported", "kept"
"""Results of rows that are not refused: imported now, or kept from an earlier import."""


@dataclass
class ImportFunnel:
    """Counts of imported, kept and refused rows."""

    results: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)
    """Ids of new tasks in whose texts lone surrogates were replaced."""

    @property
    def imported(self) -> int:
        """Return the number of rows that became tasks, in this or an earlier import."""
        return self.results[IMPORTED] + self.results[KEPT]

    @property
    def refused(self) -> Counter[str]:
        """Return the number of refused rows by reason."""
        return Counter({result: count for result, count in self.results.items() if result not in (IMPORTED, KEPT)})

    def __str__(self) -> str:
        """Format as `imported 21,330 · refused 6 (3 no image, 2 empty FAIL_TO_PASS, 1 bad patch)`."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.refused.most_common())
        there = f" ({self.results[KEPT]:,} were there)" if self.results[KEPT] else ""
        return (
            f"imported {self.imported:,}{there} · refused {self.refused.total():,}{f' ({reasons})' if reasons else ''}"
        )


def read_all(source: PublicSet, sources: Iterable[RowSource]) -> Iterator[FoundRow]:
    """Yield the rows of all sources; the data set may add columns to a row from files in the row's folder."""
    for rows in sources:
        for row in rows:
            if isinstance(rows, RowFile) and isinstance(row.content, dict):
                row = replace(row, content=source.complete(row.content, rows.path.parent))
            yield row


def import_rows(
    source: PublicSet, rows: Iterable[FoundRow], out: Path, on_task: Callable[[Task], None] = lambda task: None
) -> Iterator[ImportFunnel]:
    """Convert rows, and append each to the task file or to refused.jsonl in `out`. Yield the counts after each row.

    Each line is flushed, so a killed import loses at most one row. `on_task` receives each new task. Raises UsageError.
    """
    with _open_locked(out / source.file_name) as tasks:
        work = Import(source, tasks, out / REFUSED_NAME, on_task)
        try:
            for row in rows:
                work.funnel.results[work.take(row)] += 1
                yield work.funnel
        finally:
            work.drop_outdated_refusals()


class Import:
    """State of an import into an open task file: ids of its tasks, refused rows, and counts of rows by reason."""

    def __init__(self, source: PublicSet, tasks: BinaryIO, refused_file: Path, on_task: Callable[[Task], None]) -> None:
        self.funnel = ImportFunnel()
        self._source, self._tasks, self._refused_file, self._on_task = source, tasks, refused_file, on_task
        self._done = {_read_id(line) for _, line in read_lines(Path(tasks.name))}
        self._seen: set[str] = set()
        # Keyed by data set, place and id of the row; removed when the row becomes a task.
        self._refused: dict[tuple[str, str, str], str] = {}
        for _, line in read_lines(refused_file):
            facts = json.loads(line)
            self._refused[facts["set"], facts["place"], facts["instance_id"]] = line.decode().rstrip("\n")

    def take(self, row: FoundRow) -> str:
        """Write the task of one row; return `imported`, `kept` (from an earlier import), or the reason of a refusal."""
        name = "" if isinstance(row.content, Refused) else self._source.identify(row.content)
        key = (self._source.name, row.place, name)
        try:
            if name and name in self._seen:
                raise Refused("duplicate instance_id", f"{name} occurs before")
            self._seen.add(name)
            if is_new := name not in self._done:
                self._write(row, name)
            self._refused.pop(key, None)
            return IMPORTED if is_new else KEPT
        except Refused as refusal:
            facts = {"set": self._source.name, "place": row.place, "instance_id": name, "reason": refusal.reason}
            line = json.dumps({**facts, "detail": str(refusal)})
            if self._refused.get(key) != line:
                append_line(self._refused_file, line)
            self._refused[key] = line
            return refusal.reason

    def _write(self, row: FoundRow, name: str) -> None:
        """Append the row's task or conversation; replace lone surrogates, which UTF-8 cannot encode. Raises Refused."""
        if isinstance(row.content, Refused):
            raise row.content
        record = to_record(self._source, row.content)
        try:
            line = record.model_dump_json()
        except PydanticSerializationError:
            record = type(record).model_validate(mend(record.model_dump()))
            line = record.model_dump_json()
            self.funnel.mended.append(name)
        self._tasks.write(line.encode() + b"\n")
        self._tasks.flush()
        if isinstance(record, Task):
            self._on_task(record)

    def drop_outdated_refusals(self) -> None:
        """Rewrite refused.jsonl without the rows that have become tasks."""
        lines = [*self._refused.values()]
        if [line.decode().rstrip("\n") for _, line in read_lines(self._refused_file)] != lines:
            write_file(self._refused_file, "".join(f"{line}\n" for line in lines))


def _read_id(line: bytes) -> str:
    """Read the task or conversation id in a line of JSON; do not parse the rest of a line that Turnsmith wrote."""
    if line.startswith(ID_FIRST):
        name, _ = json.JSONDecoder().raw_decode(line.decode(), line.index(b":") + 1)
        return str(name)
    return str(json.loads(line).get("instance_id"))


def only(rows: Iterable[FoundRow], source: PublicSet, task: str, limit: int | None) -> Iterator[FoundRow]:
    """Yield the first `limit` rows; if `task` is given, yield only the row with this task id."""
    if task:
        rows = (row for row in rows if not isinstance(row.content, Refused) and source.identify(row.content) == task)
    return islice(rows, 1 if task else limit)


@contextmanager
def _open_locked(path: Path) -> Iterator[BinaryIO]:
    """Open a task file for appending, locked against other processes. Raises UsageError."""
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(f"{path.parent} is a file: give another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        hold(file)
        cut_torn_line(file)
        yield file
