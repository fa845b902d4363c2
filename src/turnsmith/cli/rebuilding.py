"""`tasks rebuild`: rows of public sets without their images."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from turnsmith.cli.options import Chosen, Json, Out, TaskPath, Workers, count_workers, going_on
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.selection import choose
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Histories = Annotated[
    list[str], typer.Option("--history", metavar="OWNER/NAME=PATH", help="Git history of a repository; repeat.")
]


def rebuild(
    path: TaskPath,
    out: Out,
    history: Histories,
    workers: Workers = None,
    task: Chosen = None,
    as_json: Json = False,
) -> None:
    """Bring imported tasks here without their images: trees from git histories, environments installed as of their day."""
    from turnsmith.synthesis.mining.history import open_history
    from turnsmith.synthesis.mining.rebuilding import REBUILT, Yard, rebuild_tasks
    from turnsmith.synthesis.mining.trees import TreeStore

    pairs = [entry.partition("=") for entry in history]
    if unclear := [name for name, _, place in pairs if not place]:
        raise UsageError(f"--history {unclear[0]} names no folder: give it as OWNER/NAME=PATH")
    histories = {name: open_history(Path(place), name) for name, _, place in pairs}
    tasks = list(choose(load_tasks(path), path, task or []))
    folder = out.resolve()
    yard = Yard(histories, folder, TreeStore(folder), count_workers(workers))
    with going_on(), watching() as progress:
        reasons = asyncio.run(rebuild_tasks(yard, tasks, progress))
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "reasons": reasons}, indent=2))
    else:
        rows = [(reason, str(count)) for reason, count in reasons.most_common()]
        make_console().print(make_table([f"{reasons.total()} tasks", "number"], rows))
    if not reasons[REBUILT]:
        raise UsageError(f"none of {len(tasks)} tasks could be rebuilt: {out}/rebuilding.jsonl says why")
