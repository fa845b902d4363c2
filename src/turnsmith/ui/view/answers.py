"""JSON data of the pages: list of runs, table of trajectories, and one trajectory."""

import json
import math
from collections.abc import Mapping
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import JournalEntry
from turnsmith.runs.summaries import TrajectorySummary
from turnsmith.ui.reading import (
    find_state,
    name_stage,
    read_prompt,
    read_results,
)
from turnsmith.ui.view.opened import OpenedRun

PAGE_SIZE = 200
"""Maximum number of trajectories in one answer."""
MAX_MESSAGE = 2_000
"""Maximum number of bytes of a message of the log."""


def list_runs(runs: Mapping[str, OpenedRun]) -> list[dict[str, Any]]:
    """List the runs with their state and last result; a run that cannot be read has an error instead."""
    return [{"name": name} | summarise_run(run) for name, run in runs.items()]


def summarise_run(run: OpenedRun) -> dict[str, Any]:
    """Return state, last message and latest result on the first task set of a run, or the error that prevents it."""
    try:
        results = read_results(run.folder)
        latest = next((result for result in results if result["stage"] == results[-1]["stage"]), None)
        return {"state": find_state(run.folder), "latest": latest, "message": read_message(run.folder)}
    except UsageError as error:
        return {"error": str(error)}


def read_message(folder: RunFolder) -> str:
    """Read the last line of a run's log, without its time; empty if there is none."""
    if not folder.log.exists():
        return ""
    with folder.log.open("rb") as file:
        file.seek(max(0, folder.log.stat().st_size - MAX_MESSAGE))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return " ".join(lines[-1].split(" ")[2:]) if lines else ""


def list_trajectories(run: OpenedRun, *, journal: str, outcome: str, text: str, first: int) -> dict[str, Any]:
    """Return one page of the trajectories of a journal (empty: all), with an outcome, whose id contains a text.

    Argument `first` is the position of the page's first trajectory among the trajectories found. All journals and outcomes of
    the run are listed, too.
    """
    everything = [*run.list_summaries()]
    found = [
        {"journal": name, **describe_summary(summary)}
        for name, summary in everything
        if journal in ("", name) and outcome in ("", summary.outcome) and text in summary.trajectory_id
    ]
    return {
        "total": len(found),
        "first": first,
        "trajectories": found[first : first + PAGE_SIZE],
        "journals": list(dict.fromkeys(name for name, _ in everything)),
        "outcomes": sorted({summary.outcome for _, summary in everything}),
    }


def describe_summary(summary: TrajectorySummary) -> dict[str, Any]:
    """Return the facts of a trajectory that its row in the table shows."""
    return {
        "id": summary.trajectory_id,
        "task": summary.instance_id,
        "index": summary.index,
        "outcome": summary.outcome,
        "stop_reason": summary.stop_reason,
        "turns": summary.num_turns,
        "tokens": summary.num_tokens,
        "seconds": summary.duration_s,
        "start": summary.start,
    }


def describe_trajectory(run: OpenedRun, journal: str, start: int) -> dict[str, Any]:
    """Return one trajectory with its prompt, issue and turns. Raises UsageError if it is missing or damaged."""
    entry = run.read(journal, start)
    task = run.find_task(entry.trajectory.instance_id)
    return {
        "short_id": entry.short_id,
        "stage": name_stage(entry),
        "issue": task.problem_statement if task else None,
        **read_prompt_text(run, entry),
        **entry.trajectory.model_dump(mode="json"),
    }


def read_prompt_text(run: OpenedRun, entry: JournalEntry) -> dict[str, str]:
    """Return the prompt, or the error that prevents reading it."""
    try:
        return {"prompt_text": read_prompt(run.folder, entry.trajectory)}
    except UsageError as error:
        return {"prompt_error": str(error)}


def to_json(data: Any) -> bytes:
    """Write data as JSON. Lone surrogates, which UTF-8 cannot encode, stay escaped."""
    return json.dumps(to_finite(data), allow_nan=False).encode()


def to_finite(data: Any) -> Any:
    """Replace NaN and infinities in JSON data, which JSON has no words for, by None."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: to_finite(value) for key, value in data.items()}
    return [*map(to_finite, data)] if isinstance(data, list | tuple) else data
