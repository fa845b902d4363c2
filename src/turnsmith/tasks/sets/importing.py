"""Import of public data sets into a task file: streamed and resumable.

```
DIR/tasks.jsonl      tasks; conversations.jsonl for trajectory data sets
DIR/refused.jsonl    one line per refused row: set, place, id, reason, details
```

Refused rows are retried, since the user may have provided what was missing.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
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
from turnsmith.types import Conversation, Task

REFUSED_NAME = "refused.jsonl"
ID_FIRST = (b'{"instance_id":', b'{"conversation_id":')
"""Prefixes of lines written by Turnsmith."""
IMPORTED, KEPT = "imported", "kept"
"""Fates of rows that are not refused."""


@dataclass
class ImportFunnel:
    """Counts of rows by fate."""

    fates: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)
    """Ids of new tasks whose text held lone surrogates."""

    @property
    def imported(self) -> int:
        """Return the number of rows that are tasks, including earlier imports."""
        return self.fates[IMPORTED] + self.fates[KEPT]

    @property
    def refused(self) -> Counter[str]:
        """Return the number of refused rows by reason."""
        return Counter({fate: count for fate, count in self.fates.items() if fate not in (IMPORTED, KEPT)})

    def __str__(self) -> str:
        """Format as `imported 21,330 · refused 6 (3 no image, 2 empty FAIL_TO_PASS, 1 bad patch)`."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.refused.most_common())
        there = f" ({self.fates[KEPT]:,} were there)" if self.fates[KEPT] else ""
        return (
            f"imported {self.imported:,}{there} · refused {self.refused.total():,}{f' ({reasons})' if reasons else ''}"
        )


@dataclass(frozen=True)
class Done:
    """Content of a folder from earlier imports."""

    ids: frozenset[str]
    refused: dict[tuple[str, str, str], str]
    """Data set, place and id of a row → its line; removed when the row becomes a task."""


@dataclass(frozen=True)
class Import:
    """State of a running import."""

    source: PublicSet
    tasks: BinaryIO
    """Open output file."""
    done: Done
    on_task: Callable[[Task], None]
    """Callback for each new task."""
    seen: set[str] = field(default_factory=set)
    """Ids of rows so far."""
    funnel: ImportFunnel = field(default_factory=ImportFunnel)


def read_all(source: PublicSet, sources: Iterable[RowSource]) -> Iterator[FoundRow]:
    """Yield the rows of all sources, completed by files beside them."""
    for rows in sources:
        for row in rows:
            if isinstance(rows, RowFile) and isinstance(row.content, dict):
                row = replace(row, content=source.complete(row.content, rows.path.parent))
            yield row


def import_rows(
    source: PublicSet, rows: Iterable[FoundRow], out: Path, on_task: Callable[[Task], None] = lambda task: None
) -> Iterator[ImportFunnel]:
    """Append a task or a refusal for each row, yielding the funnel after each. Raises UsageError.

    Lines are written at once, so a kill loses at most one. `on_task` receives each new task.
    """
    with _held(out / source.file_name) as tasks:
        work = Import(source, tasks, read_done(out, source.file_name), on_task)
        try:
            for row in rows:
                work.funnel.fates[take_row(row, work)] += 1
                yield work.funnel
        finally:
            keep_refused(out / REFUSED_NAME, work.done.refused.values())


def take_row(row: FoundRow, work: Import) -> str:
    """Write the task of one row; return its fate: `imported`, `kept` from an earlier import, or a reason."""
    name = "" if isinstance(row.content, Refused) else work.source.identify(row.content)
    key = (work.source.name, row.place, name)
    try:
        if name and name in work.seen:
            raise Refused("duplicate instance_id", f"{name} occurs before")
        work.seen.add(name)
        if is_new := name not in work.done.ids:
            write_record(read_record(work.source, row), name, work)
        work.done.refused.pop(key, None)
        return IMPORTED if is_new else KEPT
    except Refused as refusal:
        facts = {"set": work.source.name, "place": row.place, "instance_id": name, "reason": refusal.reason}
        line = json.dumps({**facts, "detail": str(refusal)})
        if work.done.refused.get(key) != line:
            append_line(Path(work.tasks.name).with_name(REFUSED_NAME), line)
        work.done.refused[key] = line
        return refusal.reason


def keep_refused(file: Path, lines: Collection[str]) -> None:
    """Rewrite the refusals if they have changed, dropping rows that became tasks."""
    if [line.decode().rstrip("\n") for _, line in read_lines(file)] != [*lines]:
        write_file(file, "".join(f"{line}\n" for line in lines))


def read_record(source: PublicSet, row: FoundRow) -> Task | Conversation:
    """Convert a row to a record. Raises Refused."""
    if isinstance(row.content, Refused):
        raise row.content
    return to_record(source, row.content)


def write_record(record: Task | Conversation, name: str, work: Import) -> None:
    """Write a record, replacing lone surrogates, which UTF-8 cannot encode."""
    try:
        line = record.model_dump_json()
    except PydanticSerializationError:
        record = type(record).model_validate(mend(record.model_dump()))
        line = record.model_dump_json()
        work.funnel.mended.append(name)
    work.tasks.write(line.encode() + b"\n")
    work.tasks.flush()
    if isinstance(record, Task):
        work.on_task(record)


def read_done(out: Path, file_name: str) -> Done:
    """Read the results of earlier imports."""
    refused = {}
    for _, line in read_lines(out / REFUSED_NAME):
        facts = json.loads(line)
        refused[facts["set"], facts["place"], facts["instance_id"]] = line.decode().rstrip("\n")
    return Done(frozenset(_read_id(line) for _, line in read_lines(out / file_name)), refused)


def _read_id(line: bytes) -> str:
    """Return the id in a line, without parsing the rest if Turnsmith wrote it."""
    if line.startswith(ID_FIRST):
        name, _ = json.JSONDecoder().raw_decode(line.decode(), line.index(b":") + 1)
        return str(name)
    return str(json.loads(line).get("instance_id"))


def only(rows: Iterable[FoundRow], source: PublicSet, task: str, limit: int | None) -> Iterator[FoundRow]:
    """Limit rows to the first ones, or to one task."""
    if task:
        rows = (row for row in rows if not isinstance(row.content, Refused) and source.identify(row.content) == task)
    return islice(rows, 1 if task else limit)


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """Open a task file for appending, locked against other processes. Raises UsageError."""
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(f"{path.parent} is a file: give another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        hold(file)
        cut_torn_line(file)
        yield file
