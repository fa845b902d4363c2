"""`grade`: anybody's predictions, graded here, reported as SWE-bench's harness does; and the predictions of a run."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from turnsmith.cli.options import (
    Chosen,
    Engine,
    Image,
    Json,
    Limit,
    SandboxKind,
    Workers,
    configure_sandbox,
    count_workers,
    going_on,
    work_in_sandboxes,
)
from turnsmith.cli.qualifying import Timeout
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.cli.tasks import read_tasks, refuse_other_kinds
from turnsmith.errors import UsageError
from turnsmith.git.diff import NO_PATCH
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.predictions import Prediction, keep_last, read_predictions, write_predictions
from turnsmith.tasks.selection import choose
from turnsmith.types import OUTCOMES, Outcome, Trajectory
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Preds = Annotated[Path, typer.Argument(metavar="PREDS", help="File or folder of SWE-bench, SWE-agent or OpenHands.")]
Tasks = Annotated[Path, typer.Option("--tasks", metavar="DIR", help="The tasks that the predictions are for.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the reports [default: where you are].")]
Run = Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the evaluation [default: that of PREDS].")]
Skip = Annotated[bool, typer.Option("--skip-unknown", help="Leave out predictions for tasks that are not here.")]
COUNTS = ("submitted", "completed", "resolved", "unresolved", "empty_patch", "error")


def grade(
    predictions: Preds,
    tasks: Tasks,
    out: Out = Path(),
    run: Run = "",
    workers: Workers = None,
    timeout_s: Timeout = 1_800.0,
    limit: Limit = None,
    only: Chosen = None,
    skip_unknown: Skip = False,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
    image: Image = "",
    engine: Engine = "",
) -> None:
    """Grade predictions, and report as SWE-bench's harness does.

    What has a report is not graded again. Exit code 1 where the infrastructure kept a patch from a verdict.
    """
    from turnsmith.grading.predictions import Submission, grade_submission, pair, refuse_unknown
    from turnsmith.grading.reports import Report
    from turnsmith.tasks.task_set import refuse_aside

    config = configure_sandbox(sandbox, image, engine)
    task_set = read_tasks(tasks)
    refuse_aside(task_set, only or ())
    found = list(choose(read_each_once(predictions), predictions, only or [], limit))
    if not skip_unknown:
        refuse_unknown(found, task_set)
    own_name = predictions.resolve().name if predictions.is_dir() else predictions.stem
    report = Report(out, name_run(run or own_name))
    submission = Submission(found, task_set, report, count_workers(workers), timeout_s)
    refuse_other_kinds((tree.task for tree, _ in pair(submission)), config)
    with going_on():
        graded = work_in_sandboxes(config, partial(grade_submission, submission))
    print_summary(graded.summary, report.summary(found[0].model), as_json=as_json)
    if graded.lost:
        raise typer.Exit(EXIT_FAILED)


def read_each_once(file: Path) -> list[Prediction]:
    """Read the last prediction for each task, and report how many are ignored. Raises UsageError."""
    rows = read_predictions(file)
    kept = keep_last(rows)
    if num := len(rows) - len(kept):
        typer.echo(f"{num} of {len(rows)} predictions are ignored: a later one answers the same task", err=True)
    return kept


def name_run(name: str) -> str:
    """A name that is fit to be that of a folder. Raises UsageError."""
    if not name.isprintable() or "/" in name or name.startswith("."):
        raise UsageError(f"--run {quote(name)} is no name of a folder: take letters and digits")
    return name


def print_summary(summary: dict[str, Any], file: Path, *, as_json: bool) -> None:
    """The report itself, or its counts and where it is."""
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
        return
    rows = [(name.replace("_", " "), summary[f"{name}_instances"]) for name in COUNTS]
    make_console().print(make_table(["predictions", "number"], rows, num_names=1))
    typer.echo(f"report        {file}")


def save_predictions(folder: RunFolder, model: str, file: Path) -> list[Path]:
    """Write the patches of an evaluation, a file for each run of its tasks; gives the files.

    Where tasks were played more than once, `preds.jsonl` becomes `preds-0.jsonl`, `preds-1.jsonl`, …. What the infrastructure
    lost is in none.
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
    """What `save_predictions` would write over where it has more than one run: `preds-0.jsonl` beside `preds.jsonl`."""
    first = file.with_stem(f"{file.stem}-0")
    return [first] if first.exists() else []


def find_patch(trajectory: Trajectory) -> str:
    """What was handed in; nothing where that is not counted, or was too large to be a patch."""
    is_counted = trajectory.outcome is not Outcome.NOT_SUBMITTED and not trajectory.patch.startswith(NO_PATCH)
    return trajectory.patch if is_counted else ""
