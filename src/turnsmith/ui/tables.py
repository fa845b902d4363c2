"""Tables for the terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from turnsmith.types import Trajectory
from turnsmith.ui.reading import Iteration
from turnsmith.ui.terminal import to_line

ITERATION_COLUMNS = {
    "resolved": "{rollouts/resolved_rate:.1%}",
    "turns": "{rollouts/turns_mean:.1f}",
    "submit": "{rollouts/submit_rate:.0%}",
    "signal": "{groups/with_signal:.0f}/{groups/all:.0f}",
    "contact": "{contact/flagged_rate:.0%}",
    "entropy": "{loss/entropy:.3f}",
    "gap": "{logprob_gap/mean:.0e}",
    "seconds": "{time/collect_s:.0f}+{time/train_s:.0f}",
}
"""Heading → metrics and how they are written. All of it fits into 80 columns; the files have more."""


def make_table(headings: Sequence[str], num_names: int) -> Table:
    """A plain table: the first columns hold names, which are folded where it grows too wide, the rest numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for position, heading in enumerate(headings):
        is_name = position < num_names
        table.add_column(heading, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name)
    return table


def results_table(results: Sequence[dict[str, Any]]) -> Table:
    """Each stage on each task set; stages of one set stand together, so that one sees what they gained."""
    at_k = f"pass@{results[0]['k'] or 'k'}"
    table = make_table(["task set", "stage", "Pass@1 ± SEM", at_k, "turns", "submitted", "tasks × runs"], num_names=2)
    add_rows(table, map(_result_cells, by_task_set(results)))
    return table


def _result_cells(result: dict[str, Any]) -> list[str]:
    sem = f" ± {100 * result['sem']:.1f}" if result["sem"] is not None else ""
    return [
        to_line(result["task_set"]),
        to_line(result["stage"]),
        f"{100 * result['pass_at_1']:.1f}{sem} %",
        "" if result["pass_at_k"] is None else f"{100 * result['pass_at_k']:.1f} %",
        "" if result["mean_turns"] is None else f"{result['mean_turns']:.1f}",
        "" if result["submit_rate"] is None else f"{result['submit_rate']:.0%}",
        " × ".join(str(result[key] or "?") for key in ("num_tasks", "num_runs")),
    ]


def endings_table(results: Sequence[dict[str, Any]]) -> Table:
    """How the rollouts of each evaluation ended."""
    table = make_table(["task set", "stage", "rollouts ended"], num_names=3)
    cells = ((r["task_set"], r["stage"], count_up(r["outcomes"] or {})) for r in by_task_set(results))
    add_rows(table, (list(map(to_line, row)) for row in cells))
    return table


def by_task_set(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, all of one task set side by side."""
    names = dict.fromkeys(result["task_set"] for result in results)
    return [result for name in names for result in results if result["task_set"] == name]


def add_rows(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Add rows, with a line between them wherever the first cell changes."""
    for _, section in groupby(rows, itemgetter(0)):
        for row in section:
            table.add_row(*row)
        table.add_section()


def iterations_table(iterations: Sequence[Iteration]) -> Table:
    """Metrics of the finished iterations."""
    table = make_table(["stage", "#", *ITERATION_COLUMNS], num_names=1)
    forms = ITERATION_COLUMNS.values()
    add_rows(table, ([to_line(i.stage), str(i.number + 1), *(_write(f, i.metrics) for f in forms)] for i in iterations))
    return table


def _write(form: str, metrics: dict[str, float]) -> str:
    """Metrics in a form such as `{a/b:.1f}`; nothing where they were not measured."""
    try:
        return form.format_map(metrics)
    except KeyError:
        return ""


def trajectories_table(trajectories: Iterable[Trajectory]) -> Table:
    """One line for each trajectory."""
    table = make_table(["trajectory", "outcome", "ended by", "turns", "tokens", "s"], num_names=3)
    for trajectory in trajectories:
        table.add_row(
            to_line(trajectory.trajectory_id),
            trajectory.outcome,
            trajectory.stop_reason,
            str(trajectory.num_turns),
            str(len(trajectory.token_ids)),
            f"{trajectory.duration_s:.0f}",
        )
    return table


def counts_table(title: str, counts: Counter[str]) -> Table:
    """What occurs how often, most frequent first."""
    table = make_table([title, "tasks"], num_names=1)
    for name, count in counts.most_common():
        table.add_row(to_line(name), str(count))
    return table


def lengths_table(lengths: dict[str, dict[str, float]]) -> Table:
    """Smallest, median and largest."""
    table = make_table(["length", "min", "median", "max"], num_names=1)
    for name, measured in lengths.items():
        table.add_row(name, *(f"{value:g}" for value in measured.values()))
    return table


def words_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Columns of words."""
    table = make_table(headings, num_names=len(headings))
    for row in rows:
        table.add_row(*map(to_line, row))
    return table


def yes_no_table(headings: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]]) -> Table:
    """A name, yes or no in colour, and what there is to say about it."""
    table = make_table(headings, num_names=len(headings))
    for is_yes, (name, *rest) in rows:
        answer = Text("yes", "green") if is_yes else Text("no", "bold red")
        table.add_row(to_line(name), answer, *map(to_line, rest))
    return table


def count_up(counts: dict[str, int]) -> str:
    """`{"unresolved": 3, "resolved": 1}` → `3 unresolved, 1 resolved`."""
    return ", ".join(f"{count} {to_line(name)}" for name, count in Counter(counts).most_common())
