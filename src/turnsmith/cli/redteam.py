"""The command `redteam`: is any attack paid, or any honest patch not?"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from turnsmith.audit.redteam.scripts import TargetName, When, find_folder, read_scripts
from turnsmith.cli.options import Json, work_in_sandboxes
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.config import SandboxConfig
from turnsmith.ui.tables import count_up, make_table
from turnsmith.ui.terminal import make_console

Audit = Annotated[
    When, typer.Option(help="Resolved patches that are audited; suspicious: as in training, but for its random share.")
]
Task = Annotated[TargetName | None, typer.Option("--task", help="What is attacked [default: both].")]
Only = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this script; may be repeated.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each script is tried.")]
Scripts = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the scripts are [default: in the checkout].")]
List = Annotated[bool, typer.Option("--list", help="Only list the scripts.")]


def redteam(
    audit: Audit = "all",
    task: Task = None,
    only: Only = None,
    rounds: Rounds = 1,
    scripts: Scripts = None,
    as_list: List = False,
    as_json: Json = False,
) -> None:
    """Attack the grader with every known trick, and check that honest patches are paid.

    Exit code 1 where an attack is paid or breaks the infrastructure, or where an honest patch is not paid. Attacks that
    only the audit stops may be paid under --audit suspicious and off.
    """
    from turnsmith.audit.redteam.trials import attack, score_scripts, sum_up

    folder = find_folder(scripts)
    chosen = read_scripts(folder, only or [])
    if as_list:
        rows = [script.row for script in chosen]
        if as_json:
            typer.echo(json.dumps(rows, indent=2))
        else:
            print_table(rows)
        return
    names: list[str] = [task] if task else ["toy", "package"]
    trials = work_in_sandboxes(SandboxConfig(kind="local"), partial(attack, names, chosen * rounds, folder, audit))
    scores, totals = score_scripts(trials), sum_up(trials)
    if as_json:
        typer.echo(json.dumps({"audit": audit, "scripts": scores, "totals": totals}, indent=2))
    else:
        print_table([{key: value for key, value in score.items() if key != "reasons"} for score in scores])
        print_table([{"in all": name.replace("_", " "), "": value} for name, value in totals.items()])
    if not all(trial.is_right(audit) for trial in trials):
        raise typer.Exit(EXIT_FAILED)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Rows of the same keys."""
    make_console().print(make_table([*rows[0]], [[*map(_to_text, row.values())] for row in rows]))


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        return count_up(value)
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
