"""`tasks check`: does the gold patch score 1, and the untouched tree 0?"""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import typer

from turnsmith.cli.options import Engine, Image, Json, SandboxKind, configure_sandbox
from turnsmith.cli.tasks.opening import TaskPath, open_tasks, say_number
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.ui.tables import yes_no_table
from turnsmith.ui.terminal import make_console

MAX_NAMED = 3
"""Tasks that an error names; the table has all."""


def check(
    path: TaskPath, as_json: Json = False, sandbox: SandboxKind = "local", image: Image = "", engine: Engine = ""
) -> None:
    """Grade the gold patch and the untouched tree of each task.

    The one must score 1 and the other 0, or the task is not sound.
    """
    checks = asyncio.run(check_in(path, configure_sandbox(sandbox, image, engine)))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(check) | {"is_sound": check.is_sound} for check in checks], indent=2))
    else:
        rows = [(check.is_sound, (check.instance_id, f"{check.duration_s:.1f} s", check.fault)) for check in checks]
        make_console().print(yes_no_table(["task", "sound", "took", "fault"], rows))
    refuse_unsound(path, checks)


def refuse_unsound(path: Path, checks: list[Any]) -> None:
    """Raises SandboxError where a task could not be checked, and UsageError where one is not sound."""
    if unchecked := [check for check in checks if not check.is_checked]:
        raise SandboxError(
            f"{len(unchecked)} of {say_number(checks)} in {path} could not be checked: {unchecked[0].fault}"
        )
    if broken := [check for check in checks if not check.is_sound]:
        names = ", ".join(f"{check.instance_id} ({check.fault})" for check in broken[:MAX_NAMED])
        more = ", …" if len(broken) > MAX_NAMED else ""
        are = "is" if len(broken) == 1 else "are"
        raise UsageError(
            f"{len(broken)} of {say_number(checks)} in {path} {are} not sound: {names}{more}: repair or remove them"
        )


async def check_in(path: Path, sandbox: SandboxConfig) -> list[Any]:
    """Check a task set."""
    from turnsmith.recipes.checking import check_tasks

    async with open_tasks(path, sandbox) as (task_set, provider, progress):
        return await check_tasks(task_set, provider, progress)
