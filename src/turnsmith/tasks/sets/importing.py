"""Rows of a public set become a task file: row by row, in little memory, and what is done is not done again.

```
DIR/tasks.jsonl      the tasks; of trajectory sets, conversations.jsonl
DIR/refused.jsonl    a line for each row that cannot become one: set, place, id, reason, and more about it
```

What was refused is tried again, since the user may have put right what it lacked.
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
from turnsmith.runs import append_line, cut_torn_line, hold, read_lines, replacing
from turnsmith.tasks.characters import mend
from turnsmith.tasks.sets.base import PublicSet, Refused, to_record
from turnsmith.tasks.sets.reading import FoundRow, RowFile, RowSource
from turnsmith.types import Conversation, Task

REFUSED_NAME = "refused.jsonl"
ID_FIRST = (b'{"instance_id":', b'{"conversation_id":')
"""What a line that we wrote begins with."""
IMPORTED, KEPT = "imported", "kept"
"""What becomes of a row, where it is no reason to refuse it."""


@dataclass
class ImportFunnel:
    """Fates of the rows."""

    fates: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)
    """Ids of new tasks whose text held halves of characters."""

    @property
    def imported(self) -> int:
        """Rows that are tasks now, those that were before among them."""
        return self.fates[IMPORTED] + self.fates[KEPT]

    @property
    def refused(self) -> Counter[str]:
        """Rows that cannot be tasks, by reason."""
        return Counter({fate: count for fate, count in self.fates.items() if fate not in (IMPORTED, KEPT)})

    def __str__(self) -> str:
        """`imported 21,330 · refused 6 (3 no image, 2 empty FAIL_TO_PASS, 1 bad patch)`."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.refused.most_common())
        there = f" ({self.fates[KEPT]:,} were there)" if self.fates[KEPT] else ""
        return (
            f"imported {self.imported:,}{there} · refused {self.refused.total():,}{f' ({reasons})' if reasons else ''}"
        )


@dataclass(frozen=True)
class Done:
    """What a folder holds already."""

    ids: frozenset[str]
    refused: dict[tuple[str, str, str], str]
    """Set, place and id of a row → its line; it goes when the row becomes a task."""


@dataclass(frozen=True)
class Import:
    """An import at work."""

    source: PublicSet
    tasks: BinaryIO
    """The file that grows."""
    done: Done
    on_task: Callable[[Task], None]
    """Gets each new task."""
    seen: set[str] = field(default_factory=set)
    """Ids of the rows so far."""
    funnel: ImportFunnel = field(default_factory=ImportFunnel)


def read_all(source: PublicSet, sources: Iterable[RowSource]) -> Iterator[FoundRow]:
    """The rows of all sources, each with what lies beside its file."""
    for rows in sources:
        for row in rows:
            if isinstance(rows, RowFile) and isinstance(row.content, dict):
                row = replace(row, content=source.complete(row.content, rows.path.parent))
            yield row


def import_rows(
    source: PublicSet, rows: Iterable[FoundRow], out: Path, on_task: Callable[[Task], None] = lambda task: None
) -> Iterator[ImportFunnel]:
    """Append a task, or a refusal, for each row; gives the state of the funnel after each. Raises UsageError.

    Each line is written as soon as it is known, so a kill loses at most a torn one. `on_task` gets each new task.
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
    """Write the task of one row. Give its fate: `imported`, `kept` from an earlier import, or a reason."""
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
    """Leave these lines only, where there are others: of rows that are tasks now, or that are refused for another reason."""
    if [line.decode().rstrip("\n") for _, line in read_lines(file)] != [*lines]:
        with replacing(file) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_record(source: PublicSet, row: FoundRow) -> Task | Conversation:
    """What a row is. Raises Refused."""
    if isinstance(row.content, Refused):
        raise row.content
    return to_record(source, row.content)


def write_record(record: Task | Conversation, name: str, work: Import) -> None:
    """Write the line of a record, mended where it holds halves of characters, which UTF-8 cannot hold."""
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
    """What earlier imports left in a folder."""
    refused = {}
    for _, line in read_lines(out / REFUSED_NAME):
        facts = json.loads(line)
        refused[facts["set"], facts["place"], facts["instance_id"]] = line.decode().rstrip("\n")
    return Done(frozenset(_read_id(line) for _, line in read_lines(out / file_name)), refused)


def _read_id(line: bytes) -> str:
    """The id of a task, without reading the rest of its line where we wrote it."""
    if line.startswith(ID_FIRST):
        name, _ = json.JSONDecoder().raw_decode(line.decode(), line.index(b":") + 1)
        return str(name)
    return str(json.loads(line).get("instance_id"))


def only(rows: Iterable[FoundRow], source: PublicSet, task: str, limit: int | None) -> Iterator[FoundRow]:
    """The first rows, or the one of a task."""
    if task:
        rows = (row for row in rows if not isinstance(row.content, Refused) and source.identify(row.content) == task)
    return islice(rows, 1 if task else limit)


@contextmanager
def _held(path: Path) -> Iterator[BinaryIO]:
    """A task file, made where it is not there, and held against other processes. Raises UsageError."""
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(f"{path.parent} is a file: give another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        hold(file)
        cut_torn_line(file)
        yield file
