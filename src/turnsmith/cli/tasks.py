"""`tasks stats`, and functions that open task files for other commands."""

from collections import Counter
from collections.abc import Iterable, Sized
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import typer

from turnsmith.cli.options import Json, Limit, TaskPath, answer
from turnsmith.config import SandboxConfig, TaskSetConfig
from turnsmith.curation.rows import count_rows
from turnsmith.errors import UsageError
from turnsmith.git.patches import count_lines
from turnsmith.sandboxes.names import load_provider
from turnsmith.tasks.dataset import find_task_file, stream_tasks
from turnsmith.tracking.loops import follow
from turnsmith.types import Task
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.tasks.task_set import TaskSet


def open_tasks(
    path: Path, sandbox: SandboxConfig, names: list[str] | None = None, limit: int | None = None
) -> "TaskSet":
    """Read the selected tasks of a file, and check that the configured sandboxes can run them. Raises UsageError."""
    task_set = read_tasks(path, names, limit)
    refuse_other_kinds(task_set.tasks, sandbox)
    return task_set


def read_tasks(path: Path, names: list[str] | None = None, limit: int | None = None) -> "TaskSet":
    """Read the selected tasks of a file; print on standard error why tasks are left out. Raises UsageError."""
    from turnsmith.grading.logparse import PARSERS
    from turnsmith.tasks.task_set import read_task_set

    task_set = read_task_set(path.name, path, PARSERS, TaskSetConfig(path=str(path), tasks=names or [], limit=limit))
    for line in task_set.remarks():
        typer.echo(to_line(line), err=True)
    return task_set


def refuse_other_kinds(tasks: Iterable[Task], sandbox: SandboxConfig) -> None:
    """Raise UsageError if a task has an image and the sandbox kind takes none, or the kind needs one and a task has none."""
    in_containers = load_provider(sandbox).takes_images
    wrong = [task for task in tasks if bool(task.image or sandbox.image) is not in_containers]
    if wrong and in_containers:
        raise UsageError(f"task {wrong[0].instance_id} names no image: give one by --sandbox.image")
    if wrong:
        needs = f"task {wrong[0].instance_id} needs the image {wrong[0].image}"
        raise UsageError(f"{needs}, which --sandbox {sandbox.kind} does not use: give --sandbox podman")


def describe_number(tasks: Sized) -> str:
    """Describe a number of tasks: `1 task`, `12 tasks`."""
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"


def check() -> None:
    """Name the command that replaces `tasks check`. Raises UsageError."""
    raise UsageError(
        "`tasks check` was removed: `turnsmith tasks qualify PATH --repeats 2` lists rejected tasks, and fails if none is fit"
    )


def stats(path: TaskPath, as_json: Json = False, limit: Limit = None) -> None:
    """Count tasks, and measure their issues, patches and numbers of tests."""
    counted_up = count_up(path, limit)
    counts, lengths = counted_up.counts, counted_up.measure()

    def show() -> None:
        console = make_console()
        console.print(f"{describe_number(range(counted_up.num_tasks))} in {path}")
        for name, counted in counts.items():
            console.print(make_table([name, "tasks"], counted.most_common(), num_names=1))
        rows = [(name, *(f"{value:g}" for value in measured.values())) for name, measured in lengths.items()]
        console.print(make_table(["length", "min", "median", "max"], rows, num_names=1))

    answer({"num_tasks": counted_up.num_tasks, "counts": counts, "lengths": lengths}, show, as_json=as_json)


def count_up(path: Path, limit: int | None) -> "TaskCounts":
    """Count the first `limit` tasks of a file, by default all, with visible progress."""
    counted_up, total = TaskCounts(), count_rows(find_task_file(path), limit)
    with watching() as progress:
        for task in follow(islice(stream_tasks(path), limit), progress, f"counting {path.name}", total):
            counted_up.add(task)
    return counted_up


class TaskCounts:
    """Counts and lengths of tasks, as `tasks stats` prints them."""

    def __init__(self) -> None:
        self.num_tasks = 0
        self.counts = {name: Counter[str]() for name in ("repo", "family", "kind")}
        self.lengths = {
            name: Counter[int]() for name in ("issue characters", "changed lines", "failing tests", "passing tests")
        }

    def add(self, task: Task) -> None:
        self.num_tasks += 1
        family, kind = (str(task.meta.get(name, "unknown")) for name in ("family", "kind"))
        for counter, value in zip(self.counts.values(), (task.repo, family, kind), strict=True):
            counter[value] += 1
        lengths = (
            len(task.problem_statement),
            count_lines(task.patch),
            len(task.FAIL_TO_PASS),
            len(task.PASS_TO_PASS),
        )
        for counted, length in zip(self.lengths.values(), lengths, strict=True):
            counted[length] += 1

    def measure(self) -> dict[str, dict[str, float]]:
        """Return minimum, median and maximum of each length. Needs at least one task."""
        return {
            name: {"min": min(counted), "median": float(median(counted.elements())), "max": max(counted)}
            for name, counted in self.lengths.items()
        }
