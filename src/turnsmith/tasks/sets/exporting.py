"""Export of tasks as rows or folders of a public data set."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import make_folder
from turnsmith.tasks.sets.base import PublicSet, came_from, to_row
from turnsmith.tasks.sets.swe_bench import SWE_BENCH
from turnsmith.types import Task

ROWS_NAME = "rows.jsonl"
CORE = ("repo", "instance_id", "base_commit", "patch", "test_patch", "problem_statement")


def export_tasks(tasks: Iterable[Task], source: PublicSet, out: Path) -> Iterator[Task]:
    """Write each task in the data set's format, then yield it. Raises UsageError."""
    if (out / ROWS_NAME).exists():
        raise UsageError(f"{out / ROWS_NAME} exists: give another --out, since nothing is overwritten")
    make_folder(out)
    for task in tasks:
        row = make_row(task, source)
        if source.folders and came_as_folder(row):
            source.folders.write(row, out)
        else:
            with (out / ROWS_NAME).open("a", encoding="utf-8") as rows:
                rows.write(json.dumps(row, ensure_ascii=False) + "\n")
        yield task


def make_row(task: Task, source: PublicSet) -> dict[str, Any]:
    """Convert a task to a row of the data set that it came from; SWE-bench takes tasks of any origin. Raises UsageError."""
    if source is SWE_BENCH and not came_from(task, source):
        columns = task.model_dump()
        lists = {name: json.dumps(columns.pop(name)) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        return (
            {name: columns.pop(name) for name in CORE}
            | lists
            | {"version": "", "environment_setup_commit": ""}
            | columns
        )
    return to_row(task, source)


def came_as_folder(row: dict[str, Any]) -> bool:
    """Return True if a row was imported from a task folder, not from a file of rows."""
    return "files" in row or "dockerfile" in row
