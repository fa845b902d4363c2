"""`tasks qualify`: which tasks are fit to be trained on?"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from turnsmith.audit.ability import say_abilities
from turnsmith.cli.options import (
    Chosen,
    Engine,
    Image,
    Json,
    Limit,
    SandboxKind,
    TaskPath,
    Workers,
    configure_sandbox,
    count_workers,
    going_on,
    work_in_sandboxes,
)
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.cli.tasks import open_tasks, say_number
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.qualification.record import Qualification
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Repeats = Annotated[
    int, typer.Option("--repeats", metavar="N", min=2, help="Runs of gold patch and untouched tree; the paper has 50.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", min=1, help="Seconds that the tests of a task may take.")
]
KeepNames = Annotated[
    bool,
    typer.Option("--keep-missing-names", help="Keep tasks whose tests only want names that the gold patch brings."),
]
Hide = Annotated[
    list[str] | None,
    typer.Option("--hide", metavar="DIR", help="Folder that sandboxes show empty, as sandbox.hidden; may be repeated."),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="NAME", help="Plugin of pytest for tasks, as sandbox.test_plugins; may be repeated."
    ),
]


def qualify(
    path: TaskPath,
    limit: Limit = None,
    tasks: Chosen = None,
    repeats: Repeats = 5,
    workers: Workers = None,
    timeout_s: Timeout = 1_800.0,
    keep_missing_names: KeepNames = False,
    hide: Hide = None,
    plugins: Plugins = None,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
    image: Image = "",
    engine: Engine = "",
) -> None:
    """Find out which tasks are fit to be trained on.

    Looks for copies of the fix, then runs the tests N times with the gold patch and without. The records are kept beside the
    task file. Exit code 1 where the infrastructure kept it from finding out, 2 where no task is fit.
    """
    from turnsmith.qualification.examination import Criteria
    from turnsmith.qualification.task_set import qualify_task_set

    hidden = [*SandboxConfig().hidden, *map(check_folder, hide or [])]
    config = configure_sandbox(sandbox, image, engine, hidden=hidden, test_plugins=plugins or [])
    criteria = Criteria(repeats, timeout_s, needs_names=not keep_missing_names, sandbox=config)
    task_set = open_tasks(path, config, tasks, limit)
    with going_on():
        records = work_in_sandboxes(config, partial(qualify_task_set, task_set, criteria, count_workers(workers)))
    if as_json:
        typer.echo(json.dumps([record.model_dump(mode="json") for record in records], indent=2))
    else:
        print_records(records)
    conclude(path, records)


def check_folder(name: str) -> str:
    """A folder to hide. Raises UsageError where there is none."""
    if not Path(name).is_absolute() or not Path(name).is_dir():
        raise UsageError(f"--hide {name}: there is no such folder: give the full path of one")
    return name


def print_records(records: Sequence[Qualification]) -> None:
    """Print the tasks that fell out, the flakes, the tasks whose audit cannot decide, each with the reason, and the counts."""
    out = [record for record in records if not record.is_qualified]
    verdicts = Counter(record.verdict for record in records).most_common()
    tables: dict[tuple[str, ...], list[tuple[str, ...]]] = {
        ("fell out", "verdict", "why"): [(record.instance_id, record.verdict, record.detail) for record in out],
        ("in quarantine", "test", "passes"): [
            (record.instance_id, test, say_passes(record, test)) for record in records for test in record.quarantined
        ],
        ("its audit cannot decide", "why"): [
            (record.instance_id, why) for record in records if (why := say_why(record))
        ],
        ("verdict", "tasks", "meaning"): [(verdict, str(count), verdict.meaning) for verdict, count in verdicts],
    }
    for headings, rows in tables.items():
        if rows:
            make_console().print(make_table(headings, rows))
    typer.echo(say_abilities([record.audit for record in records if record.is_qualified]))
    are = "is" if len(records) == 1 else "are"
    typer.echo(f"{len(records) - len(out)} of {say_number(records)} {are} qualified, {len(out)} fell out")


def say_why(record: Qualification) -> str:
    """Give the reason why the audit of a qualified task cannot decide, or is unknown; nothing where it can."""
    if not record.is_qualified:
        return ""
    if record.audit:
        return record.audit.reason
    return f"not known: {record.audit_fault or 'no audit of its gold patch is on record'}"


def say_passes(record: Qualification, test: str) -> str:
    """`4 of 5 with the gold patch, 5 without`."""
    passes = record.passes[test]
    return f"{passes.gold} of {record.repeats} with the gold patch, {passes.base} without"


def conclude(path: Path, records: Sequence[Qualification]) -> None:
    """End with 1 where a task could not be examined. Raises UsageError where none is fit."""
    if not all(record.verdict.is_final for record in records):
        raise typer.Exit(EXIT_FAILED)
    if not any(record.is_qualified for record in records):
        why = f"e.g. {records[0].instance_id}: {records[0].verdict}, {records[0].detail}"
        raise UsageError(
            f"none of {say_number(records)} in {path} is fit to be trained on, {why}: repair or replace them"
        )
