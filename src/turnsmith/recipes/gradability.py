"""Tasks that cannot be graded here: each is set aside with its reason, and the others of its set work."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from turnsmith.rewards.logparse import PARSERS
from turnsmith.tasks.sets.directives import PYTEST, names_file
from turnsmith.types import Task


class Fault(NamedTuple):
    """Why a task is set aside."""

    reason: str
    """Short, to be counted."""
    detail: str
    """The rest of a sentence that begins with the id of the task."""


def find_fault(task: Task) -> Fault | None:
    """Find why the tests of a task could not be judged, if so."""
    if task.log_parser not in PARSERS:
        detail = f"asks for the log parser {task.log_parser!r}: there is {', '.join(PARSERS)}"
        return Fault(f"nothing reads the logs of {task.log_parser}", detail)
    strange = next((test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS] if not names_file(test)), None)
    if task.log_parser == PYTEST and strange is not None:
        what = f"expects {strange!r}, which is no id of pytest's (file::test)"
        return Fault("an expected test has no id of pytest's", f"{what}: name the log_parser of its suite")
    return None


def find_faulty(tasks: Iterable[Task]) -> dict[str, Fault]:
    """Find the tasks that cannot be graded: id → reason."""
    return {task.instance_id: fault for task in tasks if (fault := find_fault(task))}


def describe_aside(aside: Mapping[str, Fault], fate: str = "cannot be graded here") -> Iterator[str]:
    """Count the tasks by reason: `2 cannot be graded here: nothing reads the logs of x, e.g. a-1`."""
    by_reason: dict[str, list[str]] = {}
    for name, fault in aside.items():
        by_reason.setdefault(fault.reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"{len(names):,} {fate}: {reason}, e.g. {names[0]}"
