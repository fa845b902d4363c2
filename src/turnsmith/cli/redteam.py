"""`redteam`: attack the grader with the red team's scripts, and check that honest patches pass."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from turnsmith.audit.redteam.scripts import TargetName, When, find_folder, read_scripts
from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import Json, answer, work_in_sandboxes
from turnsmith.config import SandboxConfig
from turnsmith.ui.tables import count_up, make_table
from turnsmith.ui.terminal import make_console

Audit = Annotated[
    When,
    typer.Option("--audit", help="Resolved patches to audit: all, those with suspicious lines, or none (off)."),
]
Task = Annotated[TargetName | None, typer.Option("--task", help="Attack the toy or the real package [default: both].")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Run only the script of this name; may be repeated.")
]
Rounds = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Number of runs of each script.")]
Scripts = Annotated[
    Path | None, typer.Option("--scripts", metavar="DIR", help="Script folder [default: `redteam` of the checkout].")
]
List = Annotated[bool, typer.Option("--list", help="List the scripts and stop.")]


def redteam(
    audit: Audit = "all",
    task: Task = None,
    only: Only = None,
    rounds: Rounds = 1,
    scripts: Scripts = None,
    as_list: List = False,
    as_json: Json = False,
) -> None:
    """Attack the grader, and check that honest patches pass.

    The exit code is 1 if an attack is rewarded or breaks the infrastructure, or if an honest patch is not rewarded. With
    --audit suspicious or off, attacks that only an audit stops may be rewarded: this does not change the exit code.
    """
    from turnsmith.audit.redteam.trials import attack, score_scripts, sum_up

    folder = find_folder(scripts)
    chosen = read_scripts(folder, only or [])
    if as_list:
        rows = [script.row for script in chosen]
        answer(rows, lambda: print_table(rows), as_json=as_json)
        return
    names: list[str] = [task] if task else ["toy", "package"]
    trials = work_in_sandboxes(SandboxConfig(), partial(attack, names, chosen * rounds, folder, audit))
    scores, totals = score_scripts(trials), sum_up(trials)

    def show() -> None:
        print_table([{key: value for key, value in score.items() if key != "reasons"} for score in scores])
        print_table([{"in all": name.replace("_", " "), "": value} for name, value in totals.items()])

    answer({"audit": audit, "scripts": scores, "totals": totals}, show, as_json=as_json)
    if not all(trial.is_right(audit) for trial in trials):
        raise typer.Exit(EXIT_FAILED)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows, which all have the same keys, as a table."""
    make_console().print(make_table([*rows[0]], [[*map(_to_text, row.values())] for row in rows]))


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        return count_up(value)
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
