"""`tasks mine`: tasks from the history of a repository."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from turnsmith.cli.options import (
    Json,
    Out,
    SandboxKind,
    Workers,
    configure_sandbox,
    count_workers,
    going_on,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import say_number
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.types import Task
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Repository = Annotated[Path, typer.Argument(metavar="REPO", help="Git checkout, or bare repository, with its history.")]
Num = Annotated[
    int | None,
    typer.Option("--num", metavar="N", min=1, help="Stop when there are so many; those under way are finished."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Look at the newest N commits only.")]
Revision = Annotated[str, typer.Option("--revision", metavar="REV", help="Where to begin, going back.")]
Name = Annotated[str, typer.Option("--name", metavar="OWNER/NAME", help="Of the repository [default: of its remote].")]
Issues = Annotated[
    Path | None, typer.Option("--issues", metavar="FILE", help="Export of issues and pull requests, JSON or JSONL.")
]
Python = Annotated[
    str, typer.Option("--python", metavar="VERSION", help="E.g. 3.9 [default: that of each commit's day].")
]
Install = Annotated[
    list[str] | None,
    typer.Option("--install", metavar="COMMAND", help="Installs what tests need, in place of what is found; repeat."),
]
TestCommand = Annotated[
    str,
    typer.Option("--test-command", metavar="COMMAND", help="Runs the test files put after it [default: by trying]."),
]
Parser = Annotated[str, typer.Option("--log-parser", metavar="NAME", help="With --test-command: reads its log.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", min=1, help="Seconds for one run of a commit's tests.")
]
MaxFiles = Annotated[
    int, typer.Option("--max-files", metavar="N", min=1, help="Source files that a commit may change.")
]
MaxLines = Annotated[int, typer.Option("--max-lines", metavar="N", min=1, help="Source lines, added and removed.")]


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
    """Make tasks of the commits that change source and tests.

    The parent of each is the base, its source the gold patch, its tests the hidden tests; which of them fail before and pass
    after is found by running them. What they need is installed once for each set of requirements, with network, by the
    repository's own set-up: mine only what you would install. The same command goes on where it was stopped; with another
    --python, --install, --test-command or --timeout it tries again what has made no task.
    """
    from turnsmith.environments.equipping import Wishes
    from turnsmith.git.history import open_history
    from turnsmith.synthesis.mining.bases import TreeStore
    from turnsmith.synthesis.mining.candidates import Bounds
    from turnsmith.synthesis.mining.issues import read_export
    from turnsmith.synthesis.mining.measuring import COMMANDS
    from turnsmith.synthesis.mining.mining import MiningJob, Search, mine_tasks

    check_wishes(python, test_command, log_parser)
    search = Search(
        revision,
        Bounds(max_files, max_lines),
        Wishes(python, tuple(install or [])),
        ((test_command, log_parser),) if test_command else COMMANDS,
        num,
        limit,
        timeout_s=timeout_s,
        num_workers=count_workers(workers),
    )
    history, threads = open_history(repository, name), read_export(issues) if issues else {}
    folder, config = out.resolve(), configure_sandbox(sandbox, "", "")

    mining = MiningJob(history, folder, search, threads, TreeStore(folder))
    with going_on():
        tasks, reasons = work_in_sandboxes(config, partial(mine_tasks, mining))
    print_funnel(out, tasks, reasons, as_json=as_json)
    if not tasks:
        raise UsageError(f"no commit of {repository} makes a task: the table says why, {out}/mining.jsonl for each")


def check_wishes(python: str, test_command: str = "", log_parser: str = "pytest") -> None:
    """Refuse what would fail with every commit or row. Raises UsageError."""
    from turnsmith.environments.pythons import find_python
    from turnsmith.grading.logparse import PARSERS

    require("uv")
    if python:
        find_python(python)
    if log_parser not in PARSERS:
        raise UsageError(f"there is no log parser {log_parser!r}: give one of {', '.join(sorted(PARSERS))}")
    if log_parser != "pytest" and not test_command:
        raise UsageError(f"--log-parser {log_parser} reads the log of a command: give --test-command, too")


def print_funnel(out: Path, tasks: list[Task], reasons: Counter[str], *, as_json: bool) -> None:
    """What became of every commit."""
    if as_json:
        report = {"folder": str(out), "num_tasks": len(tasks), "num_commits": reasons.total(), "reasons": reasons}
        typer.echo(json.dumps(report, indent=2))
        return
    rows = [(reason, str(count)) for reason, count in reasons.most_common()]
    make_console().print(make_table([f"{reasons.total()} commits", "number"], rows))
    vague = sum(bool(task.meta["is_vague"]) for task in tasks)
    typer.echo(f"{say_number(tasks)} in {out}, {vague} of them with a vague issue text")
