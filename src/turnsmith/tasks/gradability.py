"""Detection of tasks that this installation cannot grade. They are excluded from their task set."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from turnsmith.tasks.sets.directives import names_file
from turnsmith.types import PYTEST, Task


class Exclusion(NamedTuple):
    """Reason why a task is excluded from its task set."""

    reason: str
    """Short reason, by which excluded tasks are grouped and counted."""
    detail: str
    """Reason and remedy, which follow the task's id in a message: `asks for the log parser 'x': choose from pytest, lines`."""


def find_ungradable(task: Task, parsers: Collection[str]) -> Exclusion | None:
    """Return the reason why a task's test results cannot be read; None if they can."""
    if task.log_parser not in parsers:
        detail = f"asks for the log parser {task.log_parser!r}: choose from {', '.join(parsers)}"
        return Exclusion(f"no log parser {task.log_parser}", detail)
    strange = next((test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS] if not names_file(test)), None)
    if task.log_parser == PYTEST and strange is not None:
        found = f"expects {strange!r}, which is not a pytest id (file::test)"
        return Exclusion("an expected test has no pytest id", f"{found}: name the log_parser of its suite")
    return None


def find_faulty(tasks: Iterable[Task], parsers: Collection[str]) -> dict[str, Exclusion]:
    """Find the tasks that cannot be graded; return task id → reason."""
    return {task.instance_id: exclusion for task in tasks if (exclusion := find_ungradable(task, parsers))}


def describe_excluded(
    excluded: Mapping[str, Exclusion], num: int, fault: str = "cannot be graded here"
) -> Iterator[str]:
    """Yield a line per reason to exclude some of `num` tasks: `2 of 300 tasks cannot be graded here: no log parser x, e.g. a`."""
    by_reason: dict[str, list[str]] = {}
    for name, (reason, _) in excluded.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"{len(names):,} of {num:,} tasks {fault}: {reason}, e.g. {names[0]}"
