"""Tables for the terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from turnsmith.types import Trajectory
from turnsmith.ui.reading import Iteration
from turnsmith.ui.terminal import to_line

ITERATION_COLUMNS = {
    "resolved": ("rollouts/resolved_rate", "{:.1%}"),
    "turns": ("rollouts/turns_mean", "{:.1f}"),
    "tokens": ("rollouts/tokens_mean", "{:.0f}"),
    "submitted": ("rollouts/submit_rate", "{:.0%}"),
    "format errors": ("rollouts/format_errors_mean", "{:.2f}"),
    "signal": ("groups/with_signal", "{:.0f}"),
    "groups": ("groups/all", "{:.0f}"),
    "steps": ("optimizer/steps", "{:.0f}"),
    "entropy": ("loss/entropy", "{:.3f}"),
    "log-prob gap": ("logprob_gap/mean", "{:.1e}"),
    "collect s": ("time/collect_s", "{:.0f}"),
    "train s": ("time/train_s", "{:.0f}"),
}
"""Heading → metric and how it is written."""


def make_table(headings: Sequence[str], num_names: int, title: str | None = None) -> Table:
    """A plain table: the first columns hold names, the rest numbers."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position < num_names else "right", overflow="fold")
    return table


def results_table(results: Sequence[dict[str, Any]]) -> Table:
    """Each stage on each task set; stages of one set stand together, so that one sees what they gained."""
    headings = ["task set", "stage", "Pass@1 ± SEM", "pass@k", "turns", "submitted", "tasks × runs", "endings"]
    table = make_table(headings, num_names=2)
    ordered = [result for name in _names(results) for result in results if result["task_set"] == name]
    for result, after in pairwise([*ordered, None]):
        assert result
        table.add_row(*_result_cells(result), end_section=bool(after and after["task_set"] != result["task_set"]))
    return table


def _names(results: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(result["task_set"] for result in results))


def _result_cells(result: dict[str, Any]) -> list[str]:
    sem = f" ± {100 * result['sem']:.1f}" if result["sem"] is not None else ""
    return [
        to_line(result["task_set"]),
        to_line(result["stage"]),
        f"{100 * result['pass_at_1']:.1f}{sem} %",
        f"{100 * result['pass_at_k']:.1f} % (k={result['k']})",
        f"{result['mean_turns']:.1f}",
        f"{result['submit_rate']:.0%}",
        f"{result['num_tasks']} × {result['num_runs']}",
        count_up(result["outcomes"]),
    ]


def iterations_table(iterations: Sequence[Iteration]) -> Table:
    """Metrics of the finished iterations."""
    table = make_table(["stage", "iteration", *ITERATION_COLUMNS], num_names=1)
    for iteration, after in pairwise([*iterations, None]):
        assert iteration
        cells = [_metric(iteration.metrics, *column) for column in ITERATION_COLUMNS.values()]
        is_last = bool(after and after.stage != iteration.stage)
        table.add_row(to_line(iteration.stage), str(iteration.number + 1), *cells, end_section=is_last)
    return table


def _metric(metrics: dict[str, float], name: str, form: str) -> str:
    return form.format(metrics[name]) if name in metrics else ""


def trajectories_table(trajectories: Iterable[Trajectory]) -> Table:
    """One line for each trajectory."""
    table = make_table(["trajectory", "outcome", "ended by", "turns", "tokens", "seconds"], num_names=3)
    for trajectory in trajectories:
        table.add_row(
            to_line(trajectory.trajectory_id),
            trajectory.outcome,
            trajectory.stop_reason,
            str(trajectory.num_turns),
            str(len(trajectory.token_ids)),
            f"{trajectory.duration_s:.1f}",
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
