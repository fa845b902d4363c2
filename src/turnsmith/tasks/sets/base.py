"""Definition of a public data set: the columns that identify it, and a function that maps a row to a task's columns.

An imported task keeps all columns of its row. If a column has the name of a task column, but another format or meaning, the task
also stores the original value. So an export can restore the row.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnsmith.errors import TurnsmithError, UsageError, first_fault
from turnsmith.types import Conversation, Task

Row = Mapping[str, Any]
"""Row as its data set publishes it: column → plain JSON."""
Columns = dict[str, Any]
"""Values of a task's columns."""
ORIGIN = "imported"
"""Task column with the data set's name, the row's column names, and the row's form of values that the import changed."""


class Refused(TurnsmithError):
    """Error raised if a row cannot become a task. The short `reason` serves to count refused rows; the message has details."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass(frozen=True)
class TaskFolders:
    """Reader and writer of a data set that stores each task as a folder."""

    patterns: tuple[str, ...]
    """Glob patterns, relative to the imported folder. A folder that contains a matching file is a task folder."""
    read: Callable[[Path], "dict[str, Any] | Refused"]
    """Read a task folder as a row."""
    write: Callable[[dict[str, Any], Path], None]
    """Write a row as a task folder below the given folder. Raises UsageError if the task folder exists."""

    def find(self, source: Path) -> list[Path]:
        """List the task folders at or below `source`."""
        return sorted({file.parent for pattern in self.patterns for file in source.glob(pattern)})


@dataclass(frozen=True)
class PublicSet:
    """Public data set of tasks or trajectories."""

    name: str
    marks: frozenset[str]
    """Columns that every row of the data set has, and by which it is recognised."""
    describe: Callable[[Row], Columns | Task | Conversation]
    """Convert a row to task columns, to the task from which Turnsmith exported it, or to a conversation. Raises Refused."""
    identify: Callable[[Row], str] = lambda row: str(row.get("instance_id") or "")
    """Read the task id of a row; empty if missing."""
    complete: Callable[[dict[str, Any], Path], dict[str, Any]] = lambda row, folder: row
    """Add columns to a row from files in its folder."""
    file_name: str = "tasks.jsonl"
    """Name of the file to which an import writes tasks or conversations."""
    folders: "TaskFolders | None" = None
    """Reader and writer of task folders; None if the data set stores rows."""


def to_record(source: PublicSet, row: Row) -> Task | Conversation:
    """Convert a row of a data set to a task or a conversation. Raises Refused, and UsageError if `describe` has a bug."""
    try:
        described = source.describe(row)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"data set {source.name}: `describe` fails for row {source.identify(row)!r} ({type(error).__name__}: {error}): "
            "repair it, or raise turnsmith.tasks.sets.base.Refused for rows without that column"
        ) from error
    if isinstance(described, Conversation):
        return described.model_copy(update={"created_by": source.name})
    return described if isinstance(described, Task) else to_task(source, row, described)


def to_task(source: PublicSet, row: Row, described: Columns) -> Task:
    """Build a task from a row and from the task columns `described` by its data set. Raises Refused."""
    columns = {"created_by": source.name, **described}
    ours = {*Task.model_fields, ORIGIN}
    spelled = {name: spell(row[name], columns.get(name)) for name in row if name in ours}
    origin = {"set": source.name, "columns": list(row), "spelled": {name: how for name, how in spelled.items() if how}}
    others = {name: value for name, value in row.items() if name not in ours}
    try:
        return Task.model_validate({**others, **columns, ORIGIN: origin})
    except ValidationError as error:
        column = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise Refused(f"bad {column}" if column else "not a task", first_fault(error)) from None


def to_row(task: Task, source: PublicSet) -> dict[str, Any]:
    """Convert an imported task back to a row of its data set. Raises UsageError if `source` is another data set."""
    columns = task.model_dump()
    if not came_from(task, source):
        raise UsageError(
            f"task {task.instance_id} was not imported from {source.name}, so it lacks columns of that data set: "
            "export it as harbor or swe-bench"
        )
    origin = columns[ORIGIN]
    return {name: respell(columns.get(name), origin["spelled"].get(name)) for name in origin["columns"]}


def came_from(task: Task, source: PublicSet) -> bool:
    """Return True if a task was imported from the data set `source`."""
    origin = (task.model_extra or {}).get(ORIGIN)
    return isinstance(origin, dict) and origin.get("set") == source.name


def spell(given: Any, value: Any) -> Any:
    """Return the format of `given`, a row's form of `value`: None if equal, `json` or `python` text, else `{"as": given}`."""
    if given == value:
        return None
    return next(
        (name for name, write in SPELLINGS.items() if isinstance(given, str) and write(value) == given), None
    ) or {"as": given}


def respell(value: Any, how: Any) -> Any:
    """Restore the value of a row from a task's value and the format that `spell` returned."""
    if isinstance(how, dict):
        return how["as"]
    return SPELLINGS[how](value) if how else value


SPELLINGS: dict[str, Callable[[Any], str]] = {"json": json.dumps, "python": repr}
"""Text format in which a row can hold a list → function that writes a list in this format."""
