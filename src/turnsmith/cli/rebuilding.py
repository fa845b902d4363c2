"""`tasks rebuild`: rows of public sets without their images."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.mining import Install, Python, check_wishes
from turnsmith.cli.options import (
    Chosen,
    Json,
    Out,
    SandboxKind,
    TaskPath,
    Workers,
    configure_sandbox,
    count_workers,
    going_on,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import load_reported
from turnsmith.errors import UsageError
from turnsmith.tasks.selection import choose
from turnsmith.tracking import Progress
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.sandboxes.base import SandboxProvider

Histories = Annotated[
    list[str], typer.Option("--history", metavar="OWNER/NAME=PATH", help="Git history of a repository; repeat.")
]


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
    """Bring imported tasks here without their images: trees from git histories, environments installed as of their day.

    A task whose environment the grader cannot report from is refused. With --python or --install the same command tries
    again the tasks that were not rebuilt.
    """
    from turnsmith.environments.equipping import Wishes
    from turnsmith.git.history import open_history
    from turnsmith.synthesis.mining.bases import TreeStore
    from turnsmith.synthesis.mining.rebuilding import REBUILT, RebuildJob, rebuild_tasks

    check_wishes(python)
    pairs = [entry.partition("=") for entry in history]
    if unclear := [name for name, _, place in pairs if not place]:
        raise UsageError(f"--history {unclear[0]} names no folder: give it as OWNER/NAME=PATH")
    histories = {name: open_history(Path(place), name) for name, _, place in pairs}
    tasks = list(choose(load_reported(path), path, task or []))
    folder = out.resolve()
    wishes, store = Wishes(python, tuple(install or [])), TreeStore(folder)

    async def work(provider: "SandboxProvider", progress: Progress) -> Counter[str]:
        return await rebuild_tasks(
            RebuildJob(histories, folder, store, provider, count_workers(workers), wishes), tasks, progress
        )

    with going_on():
        reasons = work_in_sandboxes(configure_sandbox(sandbox, "", ""), work)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "reasons": reasons}, indent=2))
    else:
        rows = [(reason, str(count)) for reason, count in reasons.most_common()]
        make_console().print(make_table([f"{reasons.total()} tasks", "number"], rows))
    if not reasons[REBUILT]:
        raise UsageError(f"none of {len(tasks)} tasks could be rebuilt: {out}/rebuilding.jsonl says why")
