"""The command `redteam`: is any attack paid, or any honest patch not?"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.sandboxed import work_in_sandboxes
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.config import SandboxConfig
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.redteam.trials import Trial, When

Audit = Annotated[
    Literal["all", "suspicious", "off"],
    typer.Option(help="Resolved patches that are audited; suspicious: as in training, but for its random share."),
]
TargetName = Annotated[
    Literal["toy", "package"] | None, typer.Option("--task", help="What is attacked [default: both].")
]
Only = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this script; may be repeated.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each script is tried.")]
Scripts = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the scripts are [default: in the checkout].")]
List = Annotated[bool, typer.Option("--list", help="Only list the scripts.")]


def redteam(
    audit: Audit = "all",
    task: TargetName = None,
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
    from turnsmith.redteam.scripts import find_folder, read_scripts
    from turnsmith.redteam.trials import attack, is_right

    folder = find_folder(scripts)
    chosen = read_scripts(folder, only or [])
    if as_list:
        print_scripts([script.row for script in chosen], as_json=as_json)
        return
    names: list[str] = [task] if task else ["toy", "package"]
    trials = work_in_sandboxes(SandboxConfig(kind="local"), partial(attack, names, chosen * rounds, folder, audit))
    print_trials(trials, audit, as_json=as_json)
    if not all(is_right(trial, audit) for trial in trials):
        raise typer.Exit(EXIT_FAILED)


def print_scripts(rows: list[dict[str, str]], *, as_json: bool) -> None:
    """Names, what they are, what stops them, what they try."""
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        print_table(rows)


def print_trials(trials: "list[Trial]", when: "When", *, as_json: bool) -> None:
    """Each script, and the totals."""
    from turnsmith.redteam.scores import score_scripts, sum_up

    scores, totals = score_scripts(trials), sum_up(trials)
    if as_json:
        typer.echo(json.dumps({"audit": when, "scripts": scores, "totals": totals}, indent=2))
        return
    columns = ("name", "kind", "layer", "trials", "paid", "lost", "stopped_by", "tries")
    print_table([{column: score[column] for column in columns} for score in scores])
    print_table([{"in all": name.replace("_", " "), "": value} for name, value in totals.items()])


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = make_table([*rows[0]], num_names=len(rows[0]))
    for row in rows:
        table.add_row(*(to_line(_to_text(value)) for value in row.values()))
    make_console().print(table)


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{part} {key}" for key, part in value.items())
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
