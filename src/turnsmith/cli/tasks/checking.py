"""`tasks check`: does the gold patch score 1, and the untouched tree 0?"""

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turnsmith.cli.options import Engine, Image, Json, SandboxKind, configure_sandbox
from turnsmith.cli.sandboxed import work_in_sandboxes
from turnsmith.cli.tasks.opening import TaskPath, open_tasks, say_number
from turnsmith.errors import SandboxError, UsageError
from turnsmith.ui.tables import yes_no_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.recipes.checking import Check

MAX_NAMED = 3
"""Tasks that an error names; the table has all."""


def check(
    path: TaskPath, as_json: Json = False, sandbox: SandboxKind = "local", image: Image = "", engine: Engine = ""
) -> None:
    """Grade the gold patch and the untouched tree of each task.

    The one must score 1 and the other 0, or the task is not sound.
    """
    from turnsmith.recipes.checking import check_tasks

    config = configure_sandbox(sandbox, image, engine)
    checks = work_in_sandboxes(config, partial(check_tasks, open_tasks(path, config)))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(check) | {"is_sound": check.is_sound} for check in checks], indent=2))
    else:
        rows = [(check.is_sound, (check.instance_id, f"{check.duration_s:.1f} s", check.fault)) for check in checks]
        make_console().print(yes_no_table(["task", "sound", "took", "fault"], rows))
    refuse_unsound(path, checks)


def refuse_unsound(path: Path, checks: "list[Check]") -> None:
    """Raises SandboxError where a task could not be checked, and UsageError where one is not sound."""
    of = f"of {say_number(checks)} in {path}"
    if unchecked := [check for check in checks if not check.is_checked]:
        raise SandboxError(f"{len(unchecked)} {of} could not be checked: {unchecked[0].fault}")
    if broken := [check for check in checks if not check.is_sound]:
        named = [f"{check.instance_id} ({check.fault})" for check in broken[:MAX_NAMED]]
        names = ", ".join([*named, "…"] if len(broken) > MAX_NAMED else named)
        are = "is" if len(broken) == 1 else "are"
        raise UsageError(f"{len(broken)} {of} {are} not sound: {names}: repair or remove them")
