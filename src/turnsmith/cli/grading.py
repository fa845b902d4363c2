"""`grade`: grade predictions and write reports as SWE-bench's harness does; `eval --predictions`: write predictions."""

from collections import defaultdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import (
    Chosen,
    Json,
    Limit,
    Timeout,
    Workers,
    answer,
    count_workers,
    resumable,
    takes_sandbox,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import read_tasks, refuse_other_kinds
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.git.diff import NO_PATCH
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.predictions import Prediction, keep_last, read_predictions, write_predictions
from turnsmith.tasks.selection import choose
from turnsmith.types import OUTCOMES, Outcome, Trajectory
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Preds = Annotated[
    Path,
    typer.Argument(metavar="PREDS", help="File or folder of predictions, as SWE-bench, SWE-agent or OpenHands write."),
]
Tasks = Annotated[Path, typer.Option("--tasks", metavar="DIR", help="File of the predictions' tasks, or its folder.")]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", show_default=False, help="Folder for the reports [default: current folder]."),
]
Run = Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the evaluation [default: name of PREDS].")]
Skip = Annotated[bool, typer.Option("--skip-unknown", help="Skip predictions for tasks that --tasks lacks.")]
COUNTS = ("submitted", "completed", "resolved", "unresolved", "empty_patch", "error")


@takes_sandbox
def grade(
    predictions: Preds,
    tasks: Tasks,
    sandbox: SandboxConfig,
    out: Out = Path(),
    run: Run = "",
    workers: Workers = None,
    timeout_s: Timeout = 1_800.0,
    limit: Limit = None,
    only: Chosen = None,
    skip_unknown: Skip = False,
    as_json: Json = False,
) -> None:
    """Grade predictions, and write reports in SWE-bench's format.

    Predictions that already have a report are not graded again. The exit code is 1 if an infrastructure failure left a patch
    without a verdict.
    """
    from turnsmith.grading.predictions import Submission, grade_submission, pair, refuse_unknown
    from turnsmith.grading.reports import Report
    from turnsmith.tasks.task_set import refuse_excluded

    task_set = read_tasks(tasks)
    refuse_excluded(task_set, only or ())
    found = list(choose(read_each_once(predictions), predictions, only or [], limit))
    if not skip_unknown:
        refuse_unknown(found, task_set)
    default_name = predictions.resolve().name if predictions.is_dir() else predictions.stem
    report = Report(out, check_name(run or default_name))
    submission = Submission(found, task_set, report, count_workers(workers), timeout_s)
    refuse_other_kinds((tree.task for tree, _ in pair(submission)), sandbox)
    with resumable():
        graded = work_in_sandboxes(sandbox, partial(grade_submission, submission))
    file = report.summary(found[0].model)
    answer(graded.summary, lambda: print_summary(graded.summary, file), as_json=as_json)
    if graded.lost:
        raise typer.Exit(EXIT_FAILED)


def read_each_once(file: Path) -> list[Prediction]:
    """Read the last prediction for each task, and print how many are ignored. Raises UsageError."""
    rows = read_predictions(file)
    kept = keep_last(rows)
    if num := len(rows) - len(kept):
        typer.echo(f"{num} of {len(rows)} predictions are ignored: a later prediction is for the same task", err=True)
    return kept


def check_name(name: str) -> str:
    """Check the name of an evaluation, and return it. Raises UsageError if it is no valid name of a folder."""
    if not name.isprintable() or "/" in name or name.startswith("."):
        raise UsageError(f"--run {quote(name)} cannot be the name of a folder: use letters and digits")
    return name


def print_summary(summary: dict[str, Any], file: Path) -> None:
    rows = [(name.replace("_", " "), summary[f"{name}_instances"]) for name in COUNTS]
    make_console().print(make_table(["predictions", "number"], rows, num_names=1))
    typer.echo(f"report        {file}")


def save_predictions(folder: RunFolder, model: str, file: Path) -> list[Path]:
    """Write the patches of an evaluation as predictions, one per task in each file; return the files.

    With several attempts per task, `preds-0.jsonl` takes the first ones, `preds-1.jsonl` the second ones, and so on.
    Attempts lost to the infrastructure are left out.
    """
    runs = defaultdict[int, dict[str, Prediction]](dict)
    for trajectory in (each for journal in folder.journals() for each in read_trajectories(journal)):
        if OUTCOMES[trajectory.outcome].in_evaluation:
            name = trajectory.instance_id
            runs[trajectory.index][name] = Prediction(name, model, find_patch(trajectory))
    files = {number: file.with_stem(f"{file.stem}-{number}") if len(runs) > 1 else file for number in sorted(runs)}
    for number, place in files.items():
        write_predictions(place, runs[number].values())
    return [*files.values()]


def find_numbered(file: Path) -> list[Path]:
    """List existing files that `save_predictions` would overwrite for `preds.jsonl`: `preds-0.jsonl`, …."""
    first = file.with_stem(f"{file.stem}-0")
    return [first] if first.exists() else []


def find_patch(trajectory: Trajectory) -> str:
    """Return the patch of a trajectory; empty if it was too large, or if the agent of an older version did not submit it."""
    is_counted = trajectory.outcome is not Outcome.NOT_SUBMITTED and not trajectory.patch.startswith(NO_PATCH)
    return trajectory.patch if is_counted else ""
