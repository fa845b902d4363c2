"""Commands that bring tasks in and out: `tasks import`, `tasks export`, `tasks show`."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import Chosen, Json, Limit, OneTask, TaskPath
from turnsmith.cli.tasks import load_reported, say_number
from turnsmith.errors import UsageError
from turnsmith.tasks.selection import choose
from turnsmith.tasks.vagueness import find_vagueness
from turnsmith.tracking import Progress
from turnsmith.types import Task
from turnsmith.ui.live import watching
from turnsmith.ui.terminal import to_line, to_printable

if TYPE_CHECKING:
    from turnsmith.tasks.sets.importing import ImportFunnel

SetName = Annotated[str, typer.Argument(metavar="SET", help="swe-bench, swe-rebench, …; a wrong one lists them.")]
As = Annotated[str, typer.Option("--as", metavar="SET", help="harbor, swe-bench, or the set that the tasks came from.")]
From = Annotated[
    str,
    typer.Option("--from", metavar="FILE|DIR|hub:NAME", help="Parquet, JSON lines, a datasets folder, task folders."),
]
Into = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the tasks; what it holds is kept.")]
Splits = Annotated[str, typer.Option("--split", help="Which split of a source that has several.")]
ROWS_PER_TICK = 50
"""A progress bar costs time."""


def import_set(
    set_name: SetName,
    source: From,
    out: Into,
    limit: Limit = None,
    task: OneTask = "",
    split: Splits = "",
    as_json: Json = False,
) -> None:
    """Make tasks of the rows of a public data set; what cannot be one goes with its reason into refused.jsonl."""
    from turnsmith.grading.logparse import PARSERS
    from turnsmith.tasks.characters import describe_mended
    from turnsmith.tasks.gradability import SetAside, describe_aside, find_faulty
    from turnsmith.tasks.sets.importing import REFUSED_NAME, import_rows, only, read_all
    from turnsmith.tasks.sets.recognition import find_rows, find_set

    public, aside = find_set(set_name), dict[str, SetAside]()
    with watching() as progress:
        sources = find_rows(public, open_place(source), split)
        rows = only(read_all(public, sources), public, task, limit)
        funnels = import_rows(public, rows, out, on_task=lambda new: aside.update(find_faulty([new], PARSERS)))
        total = sum(each.count() for each in sources)
        funnel = watch_import(public.name, funnels, 1 if task else min(total, limit or total), progress)
    if funnel is None:
        raise UsageError(f"{source} holds no row of the task {task}" if task else f"{source} holds no rows")
    details = {name: f"{name} {each.detail}" for name, each in aside.items()}
    counts = {"imported": funnel.imported, "refused": dict(funnel.refused)}
    report = {"folder": str(out), **counts, "set_aside": details, "mended": funnel.mended}
    typer.echo(json.dumps(report, indent=2) if as_json else f"{funnel} in {out}")
    if funnel.refused and not as_json:
        typer.echo(f"{out / REFUSED_NAME} says why of each", err=True)
    remarks = [*describe_aside(aside, funnel.imported), *([describe_mended(funnel.mended)] if funnel.mended else [])]
    for line in () if as_json else remarks:
        typer.echo(to_line(line))
    if not funnel.imported:
        raise UsageError(f"no row of {source} can be a task: {out / REFUSED_NAME} says why of each")


def open_place(source: str) -> Path:
    """Where a source lies; what is on the hub is fetched. Raises UsageError."""
    if not source.startswith("hub:"):
        return Path(source)
    from turnsmith.tasks.sets.hub import fetch_rows

    return fetch_rows(source.removeprefix("hub:"))


def watch_import(name: str, funnels: "Iterable[ImportFunnel]", total: int, progress: Progress) -> "ImportFunnel | None":
    """Import to the end, and give the last state of the funnel; None where there was no row."""
    label = f"importing {name}"
    progress.begin(label, total)
    funnel, number = None, 0
    for number, funnel in enumerate(funnels, 1):
        if number % ROWS_PER_TICK == 0:
            progress.advance(label, ROWS_PER_TICK, str(funnel))
    progress.advance(label, number % ROWS_PER_TICK)
    progress.end(label)
    return funnel


def export_set(
    path: TaskPath, as_set: As, out: Into, limit: Limit = None, tasks: Chosen = None, as_json: Json = False
) -> None:
    """Write tasks as rows of a public data set, or as Harbor directories with the records of their qualification."""
    from turnsmith.curation.export import export_task_file
    from turnsmith.tasks.sets.recognition import find_set

    chosen, public = list(choose(load_reported(path), path, tasks or [], limit)), find_set(as_set)
    with watching() as progress:
        export_task_file(path, chosen, public, out, progress)
    report = {"folder": str(out), "exported": len(chosen)}
    typer.echo(json.dumps(report) if as_json else f"{say_number(chosen)} in {out}")


SHOWN = ("repo", "base_commit", "image", "workdir", "setup", "test_command", "test_files", "log_parser", "status_rules")


def show_task(path: TaskPath, task: OneTask = "", as_json: Json = False) -> None:
    """One task for people: what it is, its issue, its patches, its expected tests."""
    [chosen] = choose(load_reported(path), path, [task] if task else [], 1)
    if as_json:
        typer.echo(json.dumps(chosen.model_dump(mode="json"), indent=2))
        return
    typer.echo(to_printable(describe(chosen)))


def describe(task: Task) -> str:
    """All that a task says, in the order in which it is asked."""
    vagueness = find_vagueness(task.problem_statement)
    facts = [f"{name:12}  {value}" for name in SHOWN if (value := getattr(task, name))]
    facts.append(f"{'is_vague':12}  {f'yes: {vagueness}' if vagueness else 'no'}")
    parts = {
        "issue": task.problem_statement,
        "gold patch": task.patch,
        "hidden tests": task.test_patch,
        f"FAIL_TO_PASS ({len(task.FAIL_TO_PASS)})": "\n".join(task.FAIL_TO_PASS),
        f"PASS_TO_PASS ({len(task.PASS_TO_PASS)})": "\n".join(task.PASS_TO_PASS),
    }
    texts = [f"── {name}\n{text.strip()}" for name, text in parts.items() if text.strip()]
    return "\n\n".join(["\n".join([task.instance_id, *facts]), *texts])


COMMANDS: dict[str, Callable[..., None]] = {"import": import_set, "export": export_set, "show": show_task}
"""Below `turnsmith tasks`."""
