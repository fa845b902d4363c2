"""`tasks import`, `tasks export` and `tasks show`: public data sets, and single tasks."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import Chosen, Json, Limit, OneTask, TaskPath, answer
from turnsmith.cli.tasks import describe_number
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.selection import choose
from turnsmith.tasks.vagueness import find_vagueness
from turnsmith.tracking.loops import follow
from turnsmith.types import Task
from turnsmith.ui.live import watching
from turnsmith.ui.terminal import to_line, to_printable

if TYPE_CHECKING:
    from turnsmith.tasks.gradability import Exclusion
    from turnsmith.tasks.sets.importing import ImportFunnel

SetName = Annotated[
    str, typer.Argument(metavar="SET", help="Data set, e.g. swe-bench, or import path; any other name lists all sets.")
]
As = Annotated[
    str,
    typer.Option("--as", metavar="SET", help="Format: harbor, swe-bench, or the data set that the tasks came from."),
]
From = Annotated[
    str,
    typer.Option(
        "--from", metavar="FILE|DIR|hub:NAME", help="Parquet or JSON Lines file; folder from Harbor or `datasets`."
    ),
]
Into = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the tasks; existing tasks are kept.")]
Splits = Annotated[str, typer.Option("--split", help="Split of the source, if it has several.")]


def import_set(
    set_name: SetName,
    source: From,
    out: Into,
    limit: Limit = None,
    task: OneTask = "",
    split: Splits = "",
    as_json: Json = False,
) -> None:
    """Import a public data set as tasks.

    Rows that cannot become tasks are written to refused.jsonl with the reason.
    """
    from turnsmith.grading.logparse import PARSERS
    from turnsmith.tasks.gradability import Exclusion, find_faulty
    from turnsmith.tasks.sets.importing import REFUSED_NAME, import_rows, only, read_all
    from turnsmith.tasks.sets.recognition import find_rows, find_set

    public, excluded = find_set(set_name), dict[str, Exclusion]()
    with watching() as progress:
        sources = find_rows(public, fetch_source(source), split)
        rows = only(read_all(public, sources), public, task, limit)
        funnels = import_rows(public, rows, out, on_task=lambda new: excluded.update(find_faulty([new], PARSERS)))
        total = sum(each.count() for each in sources)
        num_rows = 1 if task else min(total, limit or total)
        states = deque(follow(funnels, progress, f"importing {public.name}", num_rows, describe=str), maxlen=1)
    if not states:
        raise UsageError(f"{source} holds no row of the task {task}" if task else f"{source} holds no rows")
    [funnel] = states
    details = {name: f"{name} {each.detail}" for name, each in excluded.items()}
    counts = {"imported": funnel.imported, "refused": dict(funnel.refused)}
    report = {"folder": str(out), **counts, "set_aside": details, "mended": funnel.mended}
    answer(report, lambda: print_import(out, funnel, excluded), as_json=as_json)
    if not funnel.imported:
        raise UsageError(f"no row of {source} can become a task: see {out / REFUSED_NAME} for the reasons")


def print_import(out: Path, funnel: "ImportFunnel", excluded: "dict[str, Exclusion]") -> None:
    """Print the numbers of imported, refused and altered rows, and of tasks that cannot be graded."""
    from turnsmith.tasks.gradability import describe_excluded
    from turnsmith.tasks.sets.importing import REFUSED_NAME

    typer.echo(f"{funnel} in {out}")
    if funnel.refused:
        typer.echo(f"see {out / REFUSED_NAME} for the reason of each refusal", err=True)
    for line in describe_excluded(excluded, funnel.imported):
        typer.echo(to_line(line))
    if names := funnel.mended:
        typer.echo(to_line(f"lone surrogates of {len(names):,} tasks are now U+FFFD, e.g. in {names[0]}"))


def fetch_source(source: str) -> Path:
    """Return the path of a data set; download `hub:NAME` first. Raises UsageError."""
    if not source.startswith("hub:"):
        return Path(source)
    from turnsmith.tasks.sets.hub import fetch_rows

    return fetch_rows(source.removeprefix("hub:"))


def export_set(
    path: TaskPath, as_set: As, out: Into, limit: Limit = None, tasks: Chosen = None, as_json: Json = False
) -> None:
    """Export tasks in the format of a public data set.

    `--as harbor` writes one Harbor directory per task, with its qualification record.
    """
    from turnsmith.curation.export import export_task_file
    from turnsmith.tasks.sets.recognition import find_set

    chosen, public = list(choose(load_tasks(path), path, tasks or [], limit)), find_set(as_set)
    with watching() as progress:
        export_task_file(path, chosen, public, out, progress)
    report = {"folder": str(out), "exported": len(chosen)}
    answer(report, lambda: typer.echo(f"{describe_number(chosen)} in {out}"), as_json=as_json)


SHOWN = ("repo", "base_commit", "image", "workdir", "setup", "test_command", "test_files", "log_parser", "status_rules")


def show_task(path: TaskPath, task: OneTask = "", as_json: Json = False) -> None:
    """Show a task: facts, issue, patches and expected tests."""
    [chosen] = choose(load_tasks(path), path, [task] if task else [], 1)
    answer(chosen.model_dump(mode="json"), lambda: typer.echo(to_printable(describe(chosen))), as_json=as_json)


def describe(task: Task) -> str:
    """Format a task as text: facts, issue, patches and expected tests."""
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
"""Subcommands of `turnsmith tasks`."""
