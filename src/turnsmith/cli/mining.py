"""`tasks mine` and `tasks rebuild`: make tasks from git histories; each gets the package versions of its commit's date."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import (
    Chosen,
    Install,
    Json,
    Out,
    Python,
    SandboxKind,
    TaskPath,
    Workers,
    answer,
    configure_sandbox,
    count_workers,
    resumable,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import describe_number
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.selection import choose
from turnsmith.tracking import Progress
from turnsmith.types import Task
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.git.history import GitHistory
    from turnsmith.sandboxes.base import SandboxProvider

Repository = Annotated[Path, typer.Argument(metavar="REPO", help="Git checkout or bare repository with its history.")]
Num = Annotated[
    int | None,
    typer.Option("--num", metavar="N", min=1, help="Stop after N tasks; commits in progress are finished."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Look only at the newest N commits.")]
Revision = Annotated[str, typer.Option("--revision", metavar="REV", help="Newest commit to look at.")]
Name = Annotated[
    str, typer.Option("--name", metavar="OWNER/NAME", help="Name of the repository [default: name of its remote].")
]
Issues = Annotated[
    Path | None, typer.Option("--issues", metavar="FILE", help="Export of issues and pull requests, JSON or JSONL.")
]
TestCommand = Annotated[
    str,
    typer.Option(
        "--test-command", metavar="COMMAND", help="Test command; a commit's test files follow it [default: detected]."
    ),
]
Parser = Annotated[str, typer.Option("--log-parser", metavar="NAME", help="Parser of the output of --test-command.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", min=1, help="Time limit in seconds for one run of a commit's tests.")
]
MaxFiles = Annotated[
    int, typer.Option("--max-files", metavar="N", min=1, help="Maximum number of source files that a commit changes.")
]
MaxLines = Annotated[
    int, typer.Option("--max-lines", metavar="N", min=1, help="Maximum number of source lines added and removed.")
]
Histories = Annotated[
    list[str],
    typer.Option("--history", metavar="OWNER/NAME=PATH", help="Git history of a task's repository; may be repeated."),
]


def mine(
    repository: Repository,
    out: Out,
    num: Num = None,
    limit: Limit = None,
    revision: Revision = "HEAD",
    name: Name = "",
    issues: Issues = None,
    python: Python = "",
    install: Install = None,
    test_command: TestCommand = "",
    log_parser: Parser = "pytest",
    workers: Workers = None,
    timeout_s: Timeout = 300.0,
    max_files: MaxFiles = 7,
    max_lines: MaxLines = 500,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
) -> None:
    """Make tasks from commits that change source and tests.

    The agent starts from the parent of a commit. The commit's source change is the gold patch, its test change the hidden
    tests. Running them shows which tests fail before and pass after the commit.

    Dependencies are installed once for each set of requirements, by the repository's own set-up and with network access. Mine
    only repositories whose code you would install.

    The same command continues after an interruption. With another --python, --install, --test-command or --timeout it tries
    commits again that made no task.
    """
    from turnsmith.environments.equipping import EnvironmentOptions
    from turnsmith.git.history import open_history
    from turnsmith.synthesis.mining.bases import TreeStore
    from turnsmith.synthesis.mining.candidates import Bounds
    from turnsmith.synthesis.mining.issues import read_export
    from turnsmith.synthesis.mining.measuring import COMMANDS
    from turnsmith.synthesis.mining.mining import MiningJob, Search, mine_tasks

    check_options(python, test_command, log_parser)
    bounds, options = Bounds(max_files, max_lines), EnvironmentOptions(python, tuple(install or []))
    commands = ((test_command, log_parser),) if test_command else COMMANDS
    search = Search(
        revision, bounds, options, commands, num, limit, timeout_s=timeout_s, num_workers=count_workers(workers)
    )
    history, threads, folder = open_history(repository, name), read_export(issues) if issues else {}, out.resolve()
    mining = MiningJob(history, folder, search, threads, TreeStore(folder))
    with resumable():
        tasks, reasons = work_in_sandboxes(configure_sandbox(sandbox), partial(mine_tasks, mining))
    data = {"folder": str(out), "num_tasks": len(tasks), "num_commits": reasons.total(), "reasons": reasons}
    answer(data, lambda: show_mined(out, tasks, reasons), as_json=as_json)
    if not tasks:
        raise UsageError(
            f"no commit of {repository} makes a task: see the table, and {out}/mining.jsonl for each commit"
        )


def show_mined(out: Path, tasks: list[Task], reasons: Counter[str]) -> None:
    """Print the number of commits by result, and the number of tasks."""
    show_reasons("commits", reasons)
    vague = sum(bool(task.meta["is_vague"]) for task in tasks)
    typer.echo(f"{describe_number(tasks)} in {out}; issue texts of {vague} are vague: see `turnsmith tasks show`")


def show_reasons(noun: str, reasons: Counter[str]) -> None:
    """Print the number of commits or tasks by result."""
    make_console().print(make_table([f"{reasons.total()} {noun}", "number"], reasons.most_common()))


def check_options(python: str, test_command: str = "", log_parser: str = "pytest") -> None:
    """Check options before the work, since every commit or task would fail with a wrong one. Raises UsageError."""
    from turnsmith.environments.pythons import find_python
    from turnsmith.grading.logparse import PARSERS

    require("uv")
    if python:
        find_python(python)
    if log_parser not in PARSERS:
        raise UsageError(f"there is no log parser {log_parser!r}: give one of {', '.join(sorted(PARSERS))}")
    if log_parser != "pytest" and not test_command:
        raise UsageError(f"--log-parser {log_parser} needs a test command: add --test-command")


def rebuild(
    path: TaskPath,
    out: Out,
    history: Histories,
    workers: Workers = None,
    task: Chosen = None,
    python: Python = "",
    install: Install = None,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
) -> None:
    """Rebuild imported tasks so that they run without images.

    Working trees come from git histories, and package versions are those of the commit's date. A task is refused if pytest
    cannot write the grader's report in the rebuilt environment. With another --python or --install, failed tasks are retried.
    """
    from turnsmith.environments.equipping import EnvironmentOptions
    from turnsmith.synthesis.mining.bases import TreeStore
    from turnsmith.synthesis.mining.rebuilding import REBUILT, RebuildJob, rebuild_tasks

    check_options(python)
    histories = open_histories(history)
    tasks = list(choose(load_tasks(path), path, task or []))
    folder = out.resolve()
    options, store = EnvironmentOptions(python, tuple(install or [])), TreeStore(folder)

    async def work(provider: "SandboxProvider", progress: Progress) -> Counter[str]:
        job = RebuildJob(histories, folder, store, provider, count_workers(workers), options)
        return await rebuild_tasks(job, tasks, progress)

    with resumable():
        reasons = work_in_sandboxes(configure_sandbox(sandbox), work)
    answer({"folder": str(out), "reasons": reasons}, lambda: show_reasons("tasks", reasons), as_json=as_json)
    if not reasons[REBUILT]:
        raise UsageError(f"none of {len(tasks)} tasks could be rebuilt: see {out}/rebuilding.jsonl for the reasons")


def open_histories(entries: list[str]) -> "dict[str, GitHistory]":
    """Open git histories given as `OWNER/NAME=PATH`, by name. Raises UsageError."""
    from turnsmith.git.history import open_history

    pairs = [entry.partition("=") for entry in entries]
    if unclear := [name for name, _, place in pairs if not place]:
        raise UsageError(f"--history {unclear[0]} names no folder: give it as OWNER/NAME=PATH")
    return {name: open_history(Path(place), name) for name, _, place in pairs}
