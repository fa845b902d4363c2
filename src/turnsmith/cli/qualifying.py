"""`tasks qualify`: find out which tasks are fit for training."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from turnsmith.audit.ability import summarise_abilities
from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import (
    Chosen,
    Json,
    Limit,
    Plugins,
    TaskPath,
    Timeout,
    Workers,
    answer,
    count_workers,
    resumable,
    takes_sandbox,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import describe_number, open_tasks
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.qualification.record import Qualification
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Repeats = Annotated[
    int,
    typer.Option("--repeats", metavar="N", min=2, help="Number of test runs with the gold patch, and without it."),
]
KeepNames = Annotated[
    bool,
    typer.Option(
        "--keep-missing-names", help="Keep tasks whose tests fail only because they use names that the gold patch adds."
    ),
]
Hide = Annotated[
    list[str] | None,
    typer.Option(
        "--hide",
        metavar="DIR",
        help="Folder to hide from agents and tests (sandbox.hidden); may be repeated.",
    ),
]


@takes_sandbox
def qualify(
    path: TaskPath,
    sandbox: SandboxConfig,
    limit: Limit = None,
    tasks: Chosen = None,
    repeats: Repeats = 5,
    workers: Workers = None,
    timeout_s: Timeout = 1_800.0,
    keep_missing_names: KeepNames = False,
    hide: Hide = None,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Find out which tasks are fit for training.

    Search each task's sandbox for copies of the fix, then test N times with and N times without the gold patch. Records are
    written beside the task file. The exit code is 1 if the infrastructure failed, and 2 if no task is fit.
    """
    from turnsmith.qualification.examination import Criteria
    from turnsmith.qualification.task_set import qualify_task_set

    hidden = [*sandbox.hidden, *map(check_folder, hide or [])]
    config = sandbox.model_copy(update={"hidden": hidden, "test_plugins": plugins or []})
    criteria = Criteria(repeats, timeout_s, needs_names=not keep_missing_names, sandbox=config)
    task_set = open_tasks(path, config, tasks, limit)
    with resumable():
        records = work_in_sandboxes(config, partial(qualify_task_set, task_set, criteria, count_workers(workers)))
    data = [record.model_dump(mode="json") for record in records]
    answer(data, lambda: print_records(records), as_json=as_json)
    conclude(path, records)


def check_folder(name: str) -> str:
    """Check a folder to hide, and return its name. Raises UsageError if it does not exist or is relative."""
    if not Path(name).is_absolute() or not Path(name).is_dir():
        raise UsageError(f"--hide {name}: not a folder, or not an absolute path: give the full path of a folder")
    return name


def print_records(records: Sequence[Qualification]) -> None:
    """Print rejected tasks, flaky tests, tasks whose audits reach no verdict, and the number of tasks by verdict."""
    out = [record for record in records if not record.is_qualified]
    verdicts = Counter(record.verdict for record in records).most_common()
    tables: dict[tuple[str, ...], list[tuple[str, ...]]] = {
        ("rejected", "verdict", "reason"): [(record.instance_id, record.verdict, record.detail) for record in out],
        ("quarantined", "test", "passes"): [
            (record.instance_id, test, describe_passes(record, test))
            for record in records
            for test in record.quarantined
        ],
        ("audit cannot decide", "reason"): [
            (record.instance_id, reason) for record in records if (reason := find_reason(record))
        ],
        ("verdict", "tasks", "meaning"): [(verdict, str(count), verdict.meaning) for verdict, count in verdicts],
    }
    for headings, rows in tables.items():
        if rows:
            make_console().print(make_table(headings, rows))
    typer.echo(summarise_abilities([record.audit for record in records if record.is_qualified]))
    are = "is" if len(records) == 1 else "are"
    typer.echo(f"{len(records) - len(out)} of {describe_number(records)} {are} qualified, {len(out)} rejected")


def find_reason(record: Qualification) -> str:
    """Return why no audit of a patch for a qualified task can reach a verdict; empty if audits can."""
    if not record.is_qualified:
        return ""
    if record.audit:
        return record.audit.reason
    return f"not known: {record.audit_fault or 'the gold patch has not been audited'}"


def describe_passes(record: Qualification, test: str) -> str:
    """Describe how often a test passed: `4 of 5 with the gold patch, 5 without`."""
    passes = record.passes[test]
    return f"{passes.gold} of {record.repeats} with the gold patch, {passes.base} without"


def conclude(path: Path, records: Sequence[Qualification]) -> None:
    """Exit with 1 if the infrastructure left a task without a verdict. Raises UsageError if no task is fit for training."""
    if not all(record.verdict.is_final for record in records):
        raise typer.Exit(EXIT_FAILED)
    if not any(record.is_qualified for record in records):
        why = f"e.g. {records[0].instance_id}: {records[0].verdict}, {records[0].detail}"
        raise UsageError(
            f"none of {describe_number(records)} in {path} is fit for training, {why}: repair or replace them"
        )
