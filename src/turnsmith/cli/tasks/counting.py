"""`tasks stats`: how many tasks, and how long."""

import json
import statistics
from collections import Counter

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.tasks.opening import TaskPath, say_number
from turnsmith.qualification.fragments import count_changes
from turnsmith.tasks.dataset import load_tasks
from turnsmith.types import Task
from turnsmith.ui.tables import counts_table, lengths_table
from turnsmith.ui.terminal import make_console


def stats(path: TaskPath, as_json: Json = False) -> None:
    """Count tasks, and measure their lengths."""
    tasks = load_tasks(path)
    counts, lengths = count_tasks(tasks), measure_tasks(tasks)
    if as_json:
        typer.echo(json.dumps({"num_tasks": len(tasks), "counts": counts, "lengths": lengths}, indent=2))
        return
    console = make_console()
    console.print(f"{say_number(tasks)} in {path}")
    for name, counted in counts.items():
        console.print(counts_table(name, counted))
    console.print(lengths_table(lengths))


def count_tasks(tasks: list[Task]) -> dict[str, Counter[str]]:
    """`{"repo": {"toolz-1.0.0": 12}, "family": …, "kind": …}`."""
    return {
        "repo": Counter(task.repo for task in tasks),
        "family": Counter(str(task.meta.get("family", "unknown")) for task in tasks),
        "kind": Counter(str(task.meta.get("kind", "unknown")) for task in tasks),
    }


def measure_tasks(tasks: list[Task]) -> dict[str, dict[str, float]]:
    """Smallest, median and largest of what has a length."""
    measured = {
        "issue characters": [len(task.problem_statement) for task in tasks],
        "changed lines": [count_changes(task.patch) for task in tasks],
        "failing tests": [len(task.FAIL_TO_PASS) for task in tasks],
        "passing tests": [len(task.PASS_TO_PASS) for task in tasks],
    }
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in measured.items()
    }
