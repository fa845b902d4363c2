"""Streamed rows of a task file; memory holds one row and the ids seen so far."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import Line, parse_json, read_json_lines

PLACES = ("layers", "environment")
"""Columns with folder paths relative to the task file."""


@dataclass(frozen=True)
class RunFacts:
    """Qualification record of a task, from running its tests."""

    missing_names: tuple[str, ...] = ()
    """Missing names that cause all FAIL_TO_PASS failures and that the gold patch defines."""
    num_repeats: int = 0
    """Number of runs, each on the untouched tree and with the gold patch."""
    flaky_tests: tuple[str, ...] = ()
    """Tests with differing outcomes across the repeats."""
    verdict: str = ""
    is_qualified: bool = False


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Row of a task file and its additional records."""

    line: bytes
    columns: dict[str, Any]
    place: str
    """File and line, for error messages."""
    facts: RunFacts | None = None
    asked_scores: dict[str, int] = field(default_factory=dict)
    """Scores from an endpoint, by name; used if the data set has none."""

    @property
    def instance_id(self) -> str:
        return self.columns["instance_id"]

    @property
    def meta(self) -> dict[str, Any]:
        """Return the `meta` column; empty if missing. Raises UsageError if it is not an object."""
        meta = self.columns.get("meta")
        if meta is None:
            return {}
        if not isinstance(meta, dict):
            raise UsageError(f"{self.place}: column 'meta' is not an object")
        return meta

    def text(self, column: str) -> str | None:
        """Return a text column; None if missing. Raises UsageError if it is not text."""
        value = self.columns.get(column)
        if value is None or isinstance(value, str):
            return value
        raise UsageError(f"{self.place}: column {column!r} is not text")

    def tests(self, column: str) -> list[str] | None:
        """Return a list of tests, given as a list or as JSON (classic SWE-bench); None if missing. Raises UsageError."""
        value = self.columns.get(column)
        if value is None:
            return None
        try:
            value = parse_json(value) if isinstance(value, str) else value
        except ValueError as error:
            raise UsageError(f"{self.place}: column {column!r} is neither a list nor JSON of one: {error}") from None
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
    """Parse one line. Raises UsageError that names its place."""
    columns = line.parse()
    if not isinstance(columns, dict):
        raise UsageError(f"{line.place}: a task is an object")
    name = columns.get("instance_id")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{line.place}: column 'instance_id' is missing or not text")
    return TaskRow(line.raw, columns, line.place)


def count_rows(file: Path, limit: int | None = None) -> int:
    """Count the rows of a file, for progress, up to `limit`."""
    return sum(1 for _ in islice(read_json_lines(file), limit))


def relocate(row: TaskRow, source: Path, target: Path) -> bytes:
    """Rewrite the row's relative folders from folder `source` to folder `target`; return its line."""
    moved = {name: _move(row.columns[name], source, target) for name in PLACES if row.columns.get(name)}
    if all(moved[name] == row.columns[name] for name in moved):
        return row.line
    return json.dumps(row.columns | moved, separators=(",", ":")).encode()


def _move(value: Any, source: Path, target: Path) -> Any:
    if isinstance(value, list):
        return [_move(path, source, target) for path in value]
    if not isinstance(value, str) or Path(value).is_absolute():
        return value
    return os.path.relpath((source / value).resolve(), target.resolve())
