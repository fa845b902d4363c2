"""JSON data of a run's overview. Its first part comes from small files only, so it does not wait for long journals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from turnsmith.runs.folder import read_json
from turnsmith.runs.journal import read_starts
from turnsmith.runs.summaries import TrajectorySummary
from turnsmith.ui.comparison import Comparison
from turnsmith.ui.curves import render_curves
from turnsmith.ui.evaluations import load_evaluation
from turnsmith.ui.reading import find_state, list_evaluations, read_iterations, read_results
from turnsmith.ui.tables import by_task_set
from turnsmith.ui.view.answers import read_message, to_json
from turnsmith.ui.view.opened import OpenedRun

NUM_BINS = 20
"""Number of intervals of a histogram."""


def describe_run(run: OpenedRun) -> dict[str, Any]:
    """Return state, results and metrics of the iterations. Raises UsageError."""
    reason = run.folder.stop_reason
    return {
        "state": find_state(run.folder),
        "stopped": reason.read_text("utf-8", "replace").strip() if reason.exists() else None,
        "results": by_task_set(read_results(run.folder)),
        "iterations": [asdict(iteration) for iteration in read_iterations(run.folder)],
        "alarms": list_alarms(run),
        "message": read_message(run.folder),
    }


def list_alarms(run: OpenedRun) -> list[str]:
    """List the warnings in the log of a run."""
    if not run.folder.log.exists():
        return []
    lines = run.folder.log.read_text("utf-8", "replace").splitlines()
    return [line for line in lines if "warning" in line.lower() or "alarm" in line.lower()][:100]


def describe_episodes(run: OpenedRun) -> dict[str, Any]:
    """Return outcomes by journal, histograms of all trajectories, and damaged lines."""
    summaries = {name: index.list_latest() for name, index in run.refresh().items()}
    outcomes = {name: Counter(summary.outcome for summary in found) for name, found in summaries.items()}
    everything = [summary for found in summaries.values() for summary in found]
    return {"outcomes": outcomes, "histograms": make_histograms(everything), "faults": run.list_faults()}


def list_running(run: OpenedRun) -> list[dict[str, Any]]:
    """List the rollouts that were started and have not ended; empty if the run is not running."""
    if find_state(run.folder) != "running":
        return []
    ended = {summary.trajectory_id for _, summary in run.list_summaries()}
    files = [
        *run.folder.path.glob("stages/*/*/trajectories.started"),
        *run.folder.path.glob("evals/*/*/trajectories.started"),
    ]
    return [start for file in files for start in read_starts(file) if start["id"] not in ended]


def make_histograms(summaries: Iterable[TrajectorySummary]) -> dict[str, Any]:
    """Make histograms of turns, tokens and seconds."""
    values = [(summary.num_turns, summary.num_tokens, summary.duration_s) for summary in summaries]
    columns = zip(("turns", "tokens", "seconds"), zip(*values, strict=True), strict=True) if values else []
    return {name: make_histogram([value for value in column if value is not None]) for name, column in columns}


def make_histogram(values: list[float]) -> dict[str, list[float]]:
    """Count values in intervals of equal width; `edges` has one number more than `counts`."""
    if not values:
        return {"counts": [], "edges": []}
    counts, edges = np.histogram(values, bins=min(NUM_BINS, max(1, round(max(values) - min(values)))))
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def list_steps(run: OpenedRun) -> list[dict[str, Any]]:
    """Compare each evaluation with the one before it on the same task set. Raises UsageError if a result is damaged."""
    files = [run.folder.result(stage, task_set) for stage, task_set in list_evaluations(run.folder)]
    key = [(str(file), file.stat().st_mtime_ns) for file in files]
    return run.steps.get(key, lambda: compare_steps(run))


def draw_curves(run: OpenedRun) -> bytes:
    """Draw the curves of a run as SVG, again only after an iteration or an evaluation has ended. Raises UsageError."""
    overview = describe_run(run)
    key = to_json([overview["results"], overview["iterations"]])
    return run.curves.get(key, lambda: render_curves(run.folder))


def compare_steps(run: OpenedRun) -> list[dict[str, Any]]:
    """Compare each evaluation with the one before it on the same task set."""
    evaluations = list_evaluations(run.folder)
    sets = dict.fromkeys(task_set for _, task_set in evaluations)
    stages = {name: [stage for stage, task_set in evaluations if task_set == name] for name in sets}
    return [
        {"task_set": name, "before": before, "after": after, **compare(run, name, before, after)}
        for name, found in stages.items()
        for before, after in pairwise(found)
    ]


def compare(run: OpenedRun, task_set: str, before: str, after: str) -> dict[str, Any]:
    """Compare two evaluations on a task set. Return only an error if they have no task in common."""
    comparison = Comparison(load_evaluation(run.folder, before, task_set), load_evaluation(run.folder, after, task_set))
    return comparison.to_json() if comparison.tasks else {"error": "no task in common"}


def describe_configuration(run: OpenedRun, other: OpenedRun | None) -> dict[str, Any]:
    """Return the configuration of a run as flat keys, with the values of another run beside them. Raises UsageError."""
    own, others = flatten(run), flatten(other) if other else {}
    keys = sorted(own | others)
    return {"rows": [(key, own.get(key), others.get(key)) for key in keys], "is_compared": other is not None}


def flatten(run: OpenedRun) -> dict[str, Any]:
    """Read the configuration with flat keys, e.g. `stages.0.iterations`."""
    return dict(walk(read_json(run.folder.config)))


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield flat keys and values of nested tables and lists; an empty table or list is a value."""
    if not isinstance(value, dict | list) or not value:
        yield key, value
        return
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, part in items:
        yield from walk(part, f"{key}.{name}".lstrip("."))
