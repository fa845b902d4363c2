"""Breakdown of a comparison by a property of the tasks: gains and losses by repository, mutator, number of turns and so on."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_last
from turnsmith.ui.comparison import Comparison
from turnsmith.ui.evaluations import Evaluation, split_address
from turnsmith.ui.reading import read_tasks
from turnsmith.ui.tables import make_table

REPOSITORY, TURNS = "repository", "turns"
"""Properties that every evaluation of a run has; others are columns of the tasks' `meta`."""
UNKNOWN = "unknown"
"""Value of tasks that lack the property."""


@dataclass(frozen=True)
class BreakdownRow:
    """Tasks with one value of a property, and their rates in both evaluations."""

    value: str
    num_tasks: int
    before: float
    """Mean share of resolved attempts in the first evaluation."""
    after: float
    num_gained: int
    """Number of tasks that the second evaluation resolves more often."""
    num_lost: int


def break_down(comparison: Comparison, by: str) -> list[BreakdownRow]:
    """Group the tasks of a comparison by a property, the largest group first. Raises UsageError for an unknown property."""
    values, groups = find_values(comparison.before, by), defaultdict[str, list[str]](list)
    for task in comparison.tasks:
        groups[values.get(task, UNKNOWN)].append(task)
    rows = [make_row(comparison, value, tasks) for value, tasks in groups.items()]
    return sorted(rows, key=lambda row: (-row.num_tasks, row.value))


def make_row(comparison: Comparison, value: str, tasks: Sequence[str]) -> BreakdownRow:
    """Make the row of the tasks with one value."""
    before, after = ([side.rates[task] for task in tasks] for side in (comparison.before, comparison.after))
    gains = [later - earlier for earlier, later in zip(before, after, strict=True)]
    num_gained, num_lost = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return BreakdownRow(value, len(tasks), fmean(before), fmean(after), num_gained, num_lost)


def find_values(evaluation: Evaluation, by: str) -> Mapping[str, str]:
    """Return each task's value of a property. Raises UsageError if the tasks do not have it."""
    if by == REPOSITORY:
        return evaluation.repositories
    run, stage, task_set = split_address(evaluation.name)
    if not task_set:
        raise UsageError(
            f"--by {by} needs the tasks of a run, and {evaluation.name} is a report: use --by {REPOSITORY}"
        )
    folder = RunFolder(Path(run))
    if by == TURNS:
        return count_turns(folder.eval_trajectories(stage, task_set))
    tasks = read_tasks(folder, task_set)
    values = {task.instance_id: str(task.meta[by]) for task in tasks if by in task.meta}
    if not values:
        known = sorted({key for task in tasks for key, value in task.meta.items() if isinstance(value, str | int)})
        raise UsageError(
            f"--by {by}: no task of {task_set} has it: give one of {', '.join([REPOSITORY, TURNS, *known])}"
        )
    return values


def count_turns(journal: Path) -> dict[str, str]:
    """Return for each task the range that holds its mean number of turns: `1 to 4`, `5 to 8`, `9 to 16`, and so on."""
    turns = defaultdict[str, list[int]](list)
    for trajectory in read_last(journal):
        turns[trajectory.instance_id].append(trajectory.num_turns)
    return {task: name_range(round(fmean(numbers))) for task, numbers in turns.items()}


def name_range(number: int) -> str:
    """Name the range of a number of turns, whose ends are powers of 2."""
    end = 4
    while number > end:
        end *= 2
    return f"{end // 2 + 1 if end > 4 else 1} to {end}"


def breakdown_table(rows: Sequence[BreakdownRow], by: str) -> Table:
    """Make a table of the groups of tasks."""
    cells = [
        (
            row.value,
            str(row.num_tasks),
            f"{row.before:.1%}",
            f"{row.after:.1%}",
            f"{100 * (row.after - row.before):+.1f}",
            str(row.num_gained),
            str(row.num_lost),
        )
        for row in rows
    ]
    return make_table([by, "tasks", "A", "B", "B − A", "gained", "lost"], cells, num_names=1)


def to_json(rows: Sequence[BreakdownRow]) -> list[dict[str, Any]]:
    """Convert the rows to data for JSON."""
    return [asdict(row) for row in rows]
