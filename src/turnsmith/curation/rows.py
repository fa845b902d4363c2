"""Reader of task files, one row at a time; only the ids of earlier rows stay in memory."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import Line, parse_json, read_json_lines

PATH_COLUMNS = ("layers", "environment")
"""Columns with folder paths, relative to the task file's folder. They are rewritten if rows are copied to another folder."""


@dataclass(frozen=True)
class RunFacts:
    """Results of a task's qualification that filters use."""

    missing_names: tuple[str, ...] = ()
    """Names that only the gold patch defines, if every FAIL_TO_PASS test fails because one of them is missing."""
    num_repeats: int = 0
    """Number of times that qualification ran the tests with the gold patch, and as often without it."""
    flaky_tests: tuple[str, ...] = ()
    """Tests whose status differed between the repeated runs."""
    verdict: str = ""
    is_qualified: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Row of a task file, with results of qualification and scores that a language model gave."""

    line: bytes
    columns: dict[str, Any]
    place: str
    """File and line, for error messages."""
    facts: RunFacts | None = None
    asked_scores: dict[str, int] = field(default_factory=dict)
    """Name → score that `tasks score` requested from a language model; used if the data set has no scores."""

    @property
    def instance_id(self) -> str:
        return self.columns["instance_id"]

    @property
    def meta(self) -> dict[str, Any]:
        """Return the row's `meta` column; empty if missing. Raises UsageError if it is not an object."""
        meta = self.columns.get("meta")
        if meta is None:
            return {}
        if not isinstance(meta, dict):
            raise UsageError(f"{self.place}: column 'meta' is not an object")
        return meta

    def text(self, column: str) -> str | None:
        """Return a text column of the row; None if missing. Raises UsageError if it is not text."""
        value = self.columns.get(column)
        if value is None or isinstance(value, str):
            return value
        raise UsageError(f"{self.place}: column {column!r} is not text")

    def tests(self, column: str) -> list[str] | None:
        """Return a column of test ids, stored as a list or as JSON (SWE-bench); None if missing. Raises UsageError."""
        value = self.columns.get(column)
        if value is None:
            return None
        try:
            value = parse_json(value) if isinstance(value, str) else value
        except ValueError as error:
            raise UsageError(f"{self.place}: column {column!r} is neither a list nor a JSON list: {error}") from None
        if not isinstance(value, list) or not all(isinstance(test, str) for test in value):
            raise UsageError(f"{self.place}: column {column!r} is not a list of tests")
        return value


def read_rows(file: Path, limit: int | None = None) -> Iterator[TaskRow]:
    """Yield the rows of a task file, up to `limit`. Raises UsageError that names file and line."""
    seen: set[str] = set()
    for line in islice(read_json_lines(file), limit):
        row = parse_row(line)
        if row.instance_id in seen:
            raise UsageError(f"{row.place}: instance_id {row.instance_id!r} occurred before: ids must be unique")
        seen.add(row.instance_id)
        yield row


def parse_row(line: Line) -> TaskRow:
    """Parse one line of a task file. Raises UsageError with its line number."""
    columns = line.parse()
    if not isinstance(columns, dict):
        raise UsageError(f"{line.place}: the line is not a JSON object")
    name = columns.get("instance_id")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{line.place}: column 'instance_id' is missing or not text")
    return TaskRow(line.raw, columns, line.place)


def count_rows(file: Path, limit: int | None = None) -> int:
    """Count the rows of a file, at most `limit`, for the progress display."""
    return sum(1 for _ in islice(read_json_lines(file), limit))


def relocate(row: TaskRow, source: Path, target: Path) -> bytes:
    """Return the row as a line of JSON. Folder paths relative to `source` are rewritten relative to `target`."""
    moved = {name: _move(row.columns[name], source, target) for name in PATH_COLUMNS if row.columns.get(name)}
    if all(moved[name] == row.columns[name] for name in moved):
        return row.line
    return json.dumps(row.columns | moved, separators=(",", ":")).encode()


def _move(value: Any, source: Path, target: Path) -> Any:
    if isinstance(value, list):
        return [_move(path, source, target) for path in value]
    if not isinstance(value, str) or Path(value).is_absolute():
        return value
    return os.path.relpath((source / value).resolve(), target.resolve())
