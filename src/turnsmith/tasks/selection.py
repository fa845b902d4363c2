"""Selection of tasks by id, limit or named subset, and detection of equal tasks under different ids."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from turnsmith.errors import UsageError
from turnsmith.io.files import read_text
from turnsmith.tasks.predictions import Prediction
from turnsmith.types import Task

BUILT_IN = {file.stem: file for file in sorted(Path(__file__).parent.glob("*.txt"))}
"""Name of a built-in subset → file of its task ids. `verified-50` is the part of SWE-bench Verified used in arXiv 2508.03501."""

N = TypeVar("N", Task, Prediction)


def choose(rows: Iterable[N], place: object, names: Collection[str] = (), limit: int | None = None) -> Iterator[N]:
    """Choose the first `limit` rows; with `names`, the first `limit` rows with one of these ids.

    Raises UsageError if an id is missing. Its message names `place`, the file of the rows.
    """
    if not names:
        return islice(rows, limit)
    found, example = list[N](), ""
    for row in rows:
        example = example or row.instance_id
        found += [row] if row.instance_id in names else []
    there = {row.instance_id for row in found}
    if missing := [name for name in names if name not in there]:
        raise UsageError(f"{place} has no task {missing[0]!r}: use ids from that file, e.g. {example}")
    return islice(found, limit)


def select_subset(tasks: Iterable[Task], subset: str) -> list[Task]:
    """Return the tasks of a built-in subset, or the tasks that a file lists by id. Raises UsageError if a task is missing."""
    by_id, wanted = {task.instance_id: task for task in tasks}, read_ids(subset)
    missing = [name for name in wanted if name not in by_id]
    if missing:
        number = f"{len(missing)} of the {len(wanted)} task ids of {subset}"
        raise UsageError(f"{number} are not in the task file, e.g. {missing[0]}: give a task file that contains them")
    return [by_id[name] for name in wanted]


def read_ids(subset: str) -> list[str]:
    """Read the task ids of a subset, skipping repeats, blank lines and `#` comments. Raises UsageError."""
    remedy = f"give {', '.join(BUILT_IN)}, or a text file with one id per line"
    lines = map(str.strip, read_text(BUILT_IN.get(subset, Path(subset)), "the subset", remedy).splitlines())
    ids = list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not ids:
        raise UsageError(f"the subset {subset} holds no task ids: write one per line")
    return ids


def digest_content(task: Task) -> str:
    """Hash a task's repository name and the changed lines of its gold patch, to find equal tasks under different ids.

    The hash is empty if the patch changes nothing. It ignores the repository's owner and, in the patch, context lines, line
    numbers and trailing white space.
    """
    lines = [line.rstrip() for line in task.patch.splitlines() if line.startswith(("diff --git ", "+", "-"))]
    if not lines:
        return ""
    name = task.repo.rpartition("/")[2].lower()  # forks have another owner
    return hashlib.sha256("\n".join([name, *lines]).encode(errors="surrogatepass")).hexdigest()
