"""Grids of solve rates: a row for each task, and a column for each evaluation or iteration."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from turnsmith.runs.summaries import TrajectorySummary
from turnsmith.types import OUTCOMES, Outcome
from turnsmith.ui.evaluations import guess_repositories
from turnsmith.ui.reading import list_evaluations, read_outline
from turnsmith.ui.view.opened import OpenedRun

TRAINING = "training"
"""Name of the grid of training tasks."""


def list_grids(run: OpenedRun) -> list[dict[str, Any]]:
    """List a grid for each evaluation set, with its stages as columns, and one for training, with its iterations as columns."""
    by_journal = defaultdict[str, list[TrajectorySummary]](list)
    for journal, summary in run.list_summaries():
        by_journal[journal].append(summary)
    columns = {journal: by_journal[journal] for journal in order_journals(run, by_journal)}
    names = dict.fromkeys(map(name_grid, columns))
    return [
        make_grid(name, {journal: found for journal, found in columns.items() if name_grid(journal) == name})
        for name in names
    ]


def order_journals(run: OpenedRun, journals: Iterable[str]) -> Iterator[str]:
    """Yield the journals in the order of the run; evaluations that have not finished come last."""
    finished = [f"evals/{stage}/{task_set}" for stage, task_set in list_evaluations(run.folder)]
    stages = [f"stages/{stage}/" for stage in read_outline(run.folder).stage_names]
    known = [*finished, *stages]
    positions = {journal: find_position(journal, known) for journal in journals}
    return iter(sorted(positions, key=lambda journal: (positions[journal], journal)))


def find_position(journal: str, known: list[str]) -> int:
    """Find the first name in `known` that is the journal or its beginning; the length of `known` if there is none."""
    matches = (place for place, name in enumerate(known) if name in (journal, journal[: len(name)]))
    return next(matches, len(known))


def name_grid(journal: str) -> str:
    """Name the grid of a journal: the task set of an evaluation, or `training`."""
    kind, _, name = journal.split("/", 2)
    return name if kind == "evals" else TRAINING


def make_grid(name: str, columns: dict[str, list[TrajectorySummary]]) -> dict[str, Any]:
    """Make a grid. A cell has the numbers of resolved and of all counted attempts; None if the task was not attempted."""
    tasks = sorted({summary.instance_id for found in columns.values() for summary in found})
    counts = [count_attempts(found) for found in columns.values()]
    repositories = guess_repositories(tasks)
    rows = [
        {"task": task, "repository": repositories[task], "cells": [count.get(task) for count in counts]}
        for task in tasks
    ]
    return {"name": name, "columns": [*columns], "rows": rows}


def count_attempts(summaries: Iterable[TrajectorySummary]) -> dict[str, tuple[int, int]]:
    """Count the resolved and all attempts of each task; attempts lost to the infrastructure do not count."""
    counts: dict[str, tuple[int, int]] = {}
    for summary in summaries:
        if OUTCOMES[summary.outcome].in_evaluation:
            num_resolved, num_all = counts.get(summary.instance_id, (0, 0))
            counts[summary.instance_id] = num_resolved + (summary.outcome == Outcome.RESOLVED), num_all + 1
    return counts
