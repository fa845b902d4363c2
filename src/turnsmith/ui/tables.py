"""Tables for the terminal."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from turnsmith.engines.endpoint.account import Entry
from turnsmith.mismatch.report import GapRange, MismatchReport
from turnsmith.runs.journal import JournalEntry
from turnsmith.types import Isolation
from turnsmith.ui.reading import FinishedIteration, name_stage
from turnsmith.ui.terminal import to_line

ITERATION_COLUMNS = {
    "resolved": "{rollouts/resolved_rate:.1%}",
    "turns": "{rollouts/turns_mean:.1f}",
    "submit": "{rollouts/submit_rate:.0%}",
    "signal": "{groups/with_signal:.0f}/{groups/all:.0f}",
    "suspicious": "{contact/flagged_rate:.0%}",
    "entropy": "{loss/entropy:.3f}",
    "gap": "{logprob_gap/mean:.0e}",
    "seconds": "{time/collect_s:.0f}+{time/train_s:.0f}",
}
"""Heading → format of its metrics, for the table of iterations. The table fits into 80 columns."""

UPDATE_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "tokens": ("tokens/trained", lambda count: to_short(count)),
    "tok/s": ("tokens/trained_per_s", lambda rate: to_short(rate)),
    "TFLOP/s": ("compute/tflops_per_rank", lambda rate: f"{rate:.3g}"),
    "MFU": ("compute/mfu", lambda share: f"{share:.1%}"),
    "s": ("time/update_s", lambda seconds: f"{seconds:,.0f}"),
}
"""Heading → metric and function that formats it, for the table of optimizer steps. The table fits into 80 columns."""
UPDATE_PARTS = {"attn.": "attention", "head": "head", "comm.": "communication", "opt.": "optimizer", "wait": "waiting"}
"""Heading → part of an optimizer step, whose share of the time the table of optimizer steps shows."""

TRAJECTORY_COLUMNS: dict[str, Callable[[JournalEntry], object]] = {
    "trajectory": lambda entry: entry.short_id,
    "stage": name_stage,
    "task": lambda entry: entry.trajectory.instance_id,
    "outcome": lambda entry: entry.trajectory.outcome,
    "ended by": lambda entry: entry.trajectory.stop_reason,
    "turns": lambda entry: entry.trajectory.num_turns,
    "tokens": lambda entry: entry.trajectory.num_tokens,
    "s": lambda entry: f"{entry.trajectory.duration_s:.0f}",
}
"""Heading → function that returns the cell of a trajectory, for the table of trajectories."""

MAX_CAUSES = 12
"""Maximum number of suspected faults in the table of `turnsmith mismatch`; JSON lists all."""


def make_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], num_names: int | None = None, *, is_grouped: bool = False
) -> Table:
    """Make a plain table. The first `num_names` columns (default: all) hold text, which wraps; the others hold numbers.

    A grouped table has a line between rows if the first cell changes.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for position, heading in enumerate(headings):
        is_name = num_names is None or position < num_names
        table.add_column(heading, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name)
    for _, group in groupby(rows, itemgetter(0)):
        for row in group:
            table.add_row(*(cell if isinstance(cell, Text) else to_line(str(cell)) for cell in row))
        if is_grouped:
            table.add_section()
    return table


def yes_no_table(headings: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]]) -> Table:
    """Make a table of pairs (bool, cells). Each row has the first cell, the bool as a coloured yes or no, and the other cells."""
    answers = {True: Text("yes", "green"), False: Text("no", "bold red")}
    return make_table(headings, ((name, answers[is_yes], *rest) for is_yes, (name, *rest) in rows))


def results_table(results: Sequence[dict[str, Any]]) -> Table:
    """Make a table of evaluation results. Rows of the same task set follow each other."""
    return make_table(result_headings(results), map(result_cells, by_task_set(results)), num_names=2, is_grouped=True)


def result_headings(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the headings of the table of results, for `result_cells`."""
    at_k = f"pass@{results[0]['k'] or 'k'}"
    return ["task set", "stage", "Pass@1 ± SEM", at_k, "turns", "submitted", "tasks × runs"]


def result_cells(result: dict[str, Any]) -> list[str]:
    """Return the row of one evaluation in the table of results."""
    sem = f" ± {100 * result['sem']:.1f}" if result["sem"] is not None else ""
    return [
        result["task_set"],
        result["stage"],
        f"{100 * result['pass_at_1']:.1f}{sem} %",
        "" if result["pass_at_k"] is None else f"{100 * result['pass_at_k']:.1f} %",
        "" if result["mean_turns"] is None else f"{result['mean_turns']:.1f}",
        "" if result["submit_rate"] is None else f"{result['submit_rate']:.0%}",
        " × ".join(str(result[key] or "?") for key in ("num_tasks", "num_runs")),
    ]


def endings_table(results: Sequence[dict[str, Any]]) -> Table:
    """Make a table of the outcomes of each evaluation."""
    rows = ((r["task_set"], r["stage"], count_up(r["outcomes"] or {})) for r in by_task_set(results))
    return make_table(["task set", "stage", "rollouts ended"], rows, is_grouped=True)


def by_task_set(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group results by task set, in the order of first appearance."""
    names = dict.fromkeys(result["task_set"] for result in results)
    return [result for name in names for result in results if result["task_set"] == name]


def list_remarks(result: dict[str, Any]) -> Iterator[str]:
    """Yield notes on an evaluation: lost rollouts, and sampling settings, e.g. a temperature, other than the policy's."""
    name = f"{to_line(result['stage'])} on {to_line(result['task_set'])}"
    if result["num_lost"]:
        yield f"{name}: {describe_losses(result)}"
    if result["sampling"]:
        settings = ", ".join(f"{key} {value:g}" for key, value in result["sampling"].items())
        yield f"{name}: sampled with {settings}, not from the policy itself"


def lacks_isolation(result: dict[str, Any]) -> bool:
    """Return True if the evaluation ran in sandboxes without any isolation."""
    return Isolation.NONE in (result.get("isolation") or "").split(", ")


def describe_losses(result: dict[str, Any]) -> str:
    """Describe lost rollouts, counted attempts, and Pass@1 and pass@k if all lost rollouts had failed or had succeeded."""
    lost = f"{result['num_lost']} rollouts were lost to the infrastructure"
    if result["pass_at_1_bounds"] is None:
        return lost
    (low, high), (low_at_k, high_at_k) = result["pass_at_1_bounds"], result["pass_at_k_bounds"]
    return (
        f"{lost}; Pass@1 rests on {result['num_attempts']} attempts of {result['num_tasks']} of {result['num_tasks_in_set']} "
        f"tasks ({low:.1%} to {high:.1%} with all), pass@{result['k']} on {result['num_tasks_at_k']} "
        f"({low_at_k:.1%} to {high_at_k:.1%} with all)"
    )


def costs_table(entries: dict[str, Entry]) -> Table:
    """Make a table of the requests to a model endpoint, their tokens and costs, by stage."""
    total = sum(entries.values(), Entry())
    rows = [
        (stage, e.requests, e.unanswered, e.input_tokens, e.cached_tokens, e.output_tokens, f"{e.cost:.4g}")
        for stage, e in [*entries.items(), ("all", total)]
    ]
    headings = ["endpoint", "requests", "unanswered", "input", "cached", "output", "cost"]
    return make_table(headings, rows, num_names=1)


def iterations_table(iterations: Sequence[FinishedIteration]) -> Table:
    forms = ITERATION_COLUMNS.values()
    rows = ([i.stage, i.number + 1, *(_write(form, i.metrics) for form in forms)] for i in iterations)
    return make_table(["stage", "#", *ITERATION_COLUMNS], rows, num_names=1, is_grouped=True)


def updates_table(iterations: Sequence[FinishedIteration]) -> Table:
    """Make a table of the work, speed and time of the optimizer steps. A column that no iteration has is left out."""
    rows = [
        [each.stage, each.number + 1, *_list_work(each.metrics), *_list_shares(each.metrics)]
        for each in iterations
        if "time/update_s" in each.metrics
    ]
    headings = ["stage", "#", *UPDATE_COLUMNS, *UPDATE_PARTS]
    used = [position for position in range(len(headings)) if any(row[position] for row in rows)]
    kept = ([row[position] for position in used] for row in rows)
    return make_table([headings[position] for position in used], kept, num_names=1, is_grouped=True)


def _list_work(metrics: dict[str, float]) -> Iterator[str]:
    """Yield the cells of `UPDATE_COLUMNS`; empty if a metric was not measured."""
    for metric, write in UPDATE_COLUMNS.values():
        yield write(metrics[metric]) if metric in metrics else ""


def _list_shares(metrics: dict[str, float]) -> Iterator[str]:
    """Yield the share of each part in the time of the optimizer steps; empty if a part was not measured."""
    for part in UPDATE_PARTS.values():
        seconds = metrics.get(f"time/{part}_s")
        yield "" if seconds is None else f"{seconds / metrics['time/update_s']:.0%}"


def to_short(count: float) -> str:
    """Format a count with three digits: `12_345_678` → `12.3M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:#.3g}".rstrip(".") + unit
    return f"{count:.3g}"


def _write(form: str, metrics: dict[str, float]) -> str:
    """Format metrics by a template such as `{a/b:.1f}`; empty if a metric was not measured."""
    try:
        return form.format_map(metrics)
    except KeyError:
        return ""


def trajectories_table(entries: Sequence[JournalEntry]) -> Table:
    """Make a table of trajectories. A stage or task that all share has no column: `describe_shared` names it.

    If neither is shared, the column `ended by` is left out. Only task names wrap, so that ids can be copied.
    """
    table = make_table([], [])
    left_out = find_shared(entries) or {"ended by"}
    columns = {heading: write for heading, write in TRAJECTORY_COLUMNS.items() if heading not in left_out}
    for heading in columns:
        is_number = heading in ("turns", "tokens", "s")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=heading != "task", overflow="fold")
    for entry in entries:
        table.add_row(*(to_line(str(write(entry))) for write in columns.values()))
    return table


def describe_shared(entries: Sequence[JournalEntry]) -> str:
    """Describe the number of trajectories and their shared stage or task: `48 trajectories, stage eval-stage2`."""
    shared = (f"{name} {to_line(value)}" for name, value in find_shared(entries).items())
    return ", ".join([f"{len(entries)} trajectories", *shared])


def find_shared(entries: Sequence[JournalEntry]) -> dict[str, str]:
    """Return `stage` or `task` → the value that all trajectories have in common; empty if they have neither in common."""
    values = {name: {TRAJECTORY_COLUMNS[name](entry) for entry in entries} for name in ("stage", "task")}
    return {name: str(next(iter(found))) for name, found in values.items() if len(found) == 1}


def count_up(counts: dict[str, int]) -> str:
    """Format counts: `{"unresolved": 3, "resolved": 1}` → `3 unresolved, 1 resolved`."""
    return ", ".join(f"{count} {to_line(name)}" for name, count in Counter(counts).most_common())


def causes_table(report: MismatchReport) -> Table:
    """Make a table of the share of the log-prob gap that each suspected fault explains, the largest first."""
    policy = ["", f"the policy in {report.dtype}, weights of {report.weights}", f"{report.gap:.2e}", ""]
    rows = [[each.family, each.name, f"{each.gap:.2e}", _percent(each.share)] for each in report.toggles[:MAX_CAUSES]]
    return make_table(["fault", "engine with this fault", "gap", "explained"], [policy, *rows], num_names=2)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share > -1 else "worse"


def stretches_table(report: MismatchReport) -> Table:
    """Make a table, by turn and by position in the context, of the log-prob gap and the rest that the likeliest fault leaves."""
    rows = [*_list_stretches("turn", report.by_turn), *_list_stretches("position", report.by_position)]
    return make_table(["by", "from", "tokens", "gap", "left"], rows, num_names=1, is_grouped=True)


def _list_stretches(name: str, places: Sequence[GapRange]) -> Iterator[list[object]]:
    for place in places:
        yield [name, place.first, place.num_tokens, f"{place.gap:.1e}", f"{place.left:.1e}"]
