"""Tables for the terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
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
    for result, is_last in with_ends(by_task_set(results), "task_set"):
        table.add_row(*_result_cells(result), end_section=is_last)
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
    for result, is_last in with_ends(by_task_set(results), "task_set"):
        names = to_line(result["task_set"]), to_line(result["stage"])
        table.add_row(*names, count_up(result["outcomes"] or {}), end_section=is_last)
    return table


def by_task_set(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, all of one task set side by side."""
    names = dict.fromkeys(result["task_set"] for result in results)
    return [result for name in names for result in results if result["task_set"] == name]


def with_ends(rows: Sequence[dict[str, Any]], key: str) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each row, and whether another value of the key comes after it."""
    for row, after in zip_longest(rows, rows[1:]):
        yield row, bool(after) and after[key] != row[key]


def iterations_table(iterations: Sequence[Iteration]) -> Table:
    """Metrics of the finished iterations."""
    table = make_table(["stage", "#", *ITERATION_COLUMNS], num_names=1)
    rows = [{"stage": iteration.stage, "iteration": iteration} for iteration in iterations]
    for row, is_last in with_ends(rows, "stage"):
        cells = [_write(form, row["iteration"].metrics) for form in ITERATION_COLUMNS.values()]
        table.add_row(to_line(row["stage"]), str(row["iteration"].number + 1), *cells, end_section=is_last)
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
