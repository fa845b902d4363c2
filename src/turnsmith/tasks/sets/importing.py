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
    """What became of the rows."""

    fates: Counter[str] = field(default_factory=Counter)

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
        done, seen, funnel = read_done(out, source.file_name), set[str](), ImportFunnel()
        try:
            for row in rows:
                funnel.fates[take_row(source, row, tasks, done, seen, on_task)] += 1
                yield funnel
        finally:
            keep_refused(out / REFUSED_NAME, done.refused.values())


def take_row(
    source: PublicSet,
    row: FoundRow,
    tasks: BinaryIO,
    done: Done,
    seen: set[str],
    on_task: Callable[[Task], None],
) -> str:
    """Write the task of one row. Give its fate: `imported`, `kept` from an earlier import, or a reason."""
    name = "" if isinstance(row.content, Refused) else source.identify(row.content)
    key = (source.name, row.place, name)
    try:
        if name and name in seen:
            raise Refused("duplicate instance_id", f"{name} occurs before")
        seen.add(name)
        if is_new := name not in done.ids:
            record = read_record(source, row)
            tasks.write(write_line(record).encode() + b"\n")
            tasks.flush()
            if isinstance(record, Task):
                on_task(record)
        done.refused.pop(key, None)
        return IMPORTED if is_new else KEPT
    except Refused as refusal:
        facts = {"set": source.name, "place": row.place, "instance_id": name, "reason": refusal.reason}
        line = json.dumps({**facts, "detail": str(refusal)})
        if done.refused.get(key) != line:
            append_line(Path(tasks.name).with_name(REFUSED_NAME), line)
        done.refused[key] = line
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


def write_line(record: Task | Conversation) -> str:
    """The line of a file for it. Raises Refused."""
    try:
        return record.model_dump_json()
    except PydanticSerializationError:
        raise Refused("bad text", "it holds half of a character, which is no UTF-8") from None


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
