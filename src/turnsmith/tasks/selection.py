"""Which tasks of a data set: the first, those of some ids, named subsets; and the same task under another id."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from turnsmith.errors import UsageError
from turnsmith.types import Task

BUILT_IN = {file.stem: file for file in sorted(Path(__file__).parent.glob("*.txt"))}
"""`verified-50`: the tasks of SWE-bench Verified that the paper evaluates intermediate checkpoints on."""


class Named(Protocol):
    """A task, or what is said of one."""

    @property
    def instance_id(self) -> str: ...


N = TypeVar("N", bound=Named)


def choose(rows: Iterable[N], place: object, names: Collection[str] = (), limit: int | None = None) -> Iterator[N]:
    """Those of these ids, or all where no id is given, in their order; of them the first `limit`.

    Raises UsageError that names the place where an id is not there.
    """
    return islice(find_named(rows, place, names) if names else rows, limit)


def find_named(rows: Iterable[N], place: object, names: Collection[str]) -> list[N]:
    """Those of these ids, in their order. Raises UsageError where one is not there."""
    found, example = list[N](), ""
    for row in rows:
        example = example or row.instance_id
        found += [row] if row.instance_id in names else []
    there = {row.instance_id for row in found}
    if missing := [name for name in names if name not in there]:
        raise UsageError(f"{place} has no task {missing[0]!r}: give ids as they stand there, e.g. {example}")
    return found


def select_subset(tasks: Iterable[Task], subset: str) -> list[Task]:
    """The tasks of a built-in subset, or of a file with one id per line, in its order. Raises UsageError where one is missing."""
    by_id, wanted = {task.instance_id: task for task in tasks}, read_ids(subset)
    missing = [name for name in wanted if name not in by_id]
    if missing:
        number = f"{len(missing)} of the {len(wanted)} ids of {subset}"
        raise UsageError(f"{number} are not among the tasks, e.g. {missing[0]}")
    return [by_id[name] for name in wanted]


def read_ids(subset: str) -> list[str]:
    """The ids of a subset, each once; blank lines and lines that begin with # are passed over. Raises UsageError."""
    file = BUILT_IN.get(subset, Path(subset))
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError):
        known = ", ".join(BUILT_IN)
        raise UsageError(f"no subset {subset!r}: give {known}, or a text file with one id per line") from None
    ids = list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not ids:
        raise UsageError(f"the subset {subset} holds no id: give one per line")
    return ids


def digest_content(task: Task) -> str:
    """Digest of the repository's name and of what the gold patch removes and adds where; empty where it changes nothing.

    Owner, context, positions and white space at the ends of lines make no difference. Names of generated repositories may
    repeat; with the path and the lines of the patch they do not.
    """
    lines = [line.rstrip() for line in task.patch.splitlines() if line.startswith(("diff --git ", "+", "-"))]
    if not lines:
        return ""
    name = task.repo.rpartition("/")[2].lower()  # forks have another owner
    return hashlib.sha256("\n".join([name, *lines]).encode(errors="surrogatepass")).hexdigest()
