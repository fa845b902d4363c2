"""The command `redteam`: is any attack paid, or any honest patch not?"""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.temporary import temporary_folder
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.redteam.scripts import Script
    from turnsmith.redteam.trials import Trial, When

Audit = Annotated[
    Literal["all", "suspicious", "off"],
    typer.Option(
        "--audit", help="Resolved patches that are audited; suspicious: as in training, but for its random share."
    ),
]
TargetName = Annotated[
    Literal["toy", "package"] | None,
    typer.Option("--task", help="What is attacked [default: both]; package needs the package index."),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="How often each script is tried.")]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this script; may be repeated.")]
Scripts = Annotated[
    Path | None, typer.Option("--scripts", metavar="DIR", help="Where the scripts are [default: in the checkout].")
]
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
    from turnsmith.redteam.trials import is_right

    folder = find_folder(scripts)
    chosen = choose(only or [], read_scripts(folder))
    if as_list:
        print_scripts(chosen, as_json=as_json)
        return
    trials = asyncio.run(attack([task] if task else ["toy", "package"], chosen, folder, rounds, audit))
    print_trials(trials, audit, as_json=as_json)
    if not all(is_right(trial, audit) for trial in trials):
        raise typer.Exit(EXIT_FAILED)


def choose(names: list[str], scripts: "list[Script]") -> "list[Script]":
    """The scripts of these names, or all. Raises UsageError for a name that none has."""
    by_name = {script.name: script for script in scripts}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(f"no script is named {unknown[0]!r}: `turnsmith redteam --list` shows all of them")
    return [by_name[name] for name in names] or scripts


async def attack(
    names: list[str], scripts: "list[Script]", source: Path, num_rounds: int, when: "When"
) -> "list[Trial]":
    """Make the targets in a folder that goes away, and run every script on each. Only isolated sandboxes will do."""
    from turnsmith.redteam.targets import make_target
    from turnsmith.redteam.trials import try_all
    from turnsmith.sandboxes import make_provider

    provider = make_provider(SandboxConfig(kind="local"))
    try:
        with temporary_folder("redteam") as folder, watching() as progress:
            targets = [await make_target(name, folder / name, provider, source) for name in names]
            rounds = [await try_all(scripts, targets, provider, when, progress) for _ in range(num_rounds)]
            return [trial for trials in rounds for trial in trials]
    finally:
        await provider.close()


def print_scripts(scripts: "list[Script]", *, as_json: bool) -> None:
    """Names, what they are, what stops them, what they try."""
    columns = ("name", "kind", "layer", "tries")
    rows = [tuple(getattr(script, column) for column in columns) for script in scripts]
    if as_json:
        typer.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2))
    else:
        print_table(columns, rows)


def print_trials(trials: "list[Trial]", when: "When", *, as_json: bool) -> None:
    """Each script, and the totals."""
    from turnsmith.redteam.scores import score_scripts, sum_up

    scores, totals = score_scripts(trials), sum_up(trials)
    if as_json:
        typer.echo(json.dumps({"audit": when, "scripts": scores, "totals": totals}, indent=2))
        return
    columns = ("name", "layer", "paid", "stopped by", "tries")
    print_table(columns, [_to_row(score) for score in scores])
    make_console().print(describe_totals(totals))
    for name in totals["stopped_elsewhere"]:
        make_console().print(f"{name} is stopped by another layer than its header names")


def print_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = make_table(columns, num_names=len(columns))
    for row in rows:
        table.add_row(*map(to_line, row))
    make_console().print(table)


def _to_row(score: dict[str, Any]) -> tuple[str, ...]:
    paid = f"{score['paid']}/{score['trials']}"
    return score["name"], score["layer"] or score["kind"], paid, ", ".join(score["stopped_by"]), score["tries"]


def describe_totals(totals: dict[str, Any]) -> str:
    """`59 attacks in 110 trials: 0 paid, 0 broke the infrastructure; 96 stopped by the verdict, 14 by the audit. …`"""
    stopped = totals["stopped_by"]
    return (
        f"{totals['attacks']} attacks in {totals['attack_trials']} trials: {totals['attacks_paid']} paid, "
        f"{stopped['verdict']} stopped by the verdict, {stopped['audit']} by the audit. "
        f"{totals['honest']} honest patches in {totals['honest_trials']} trials: {totals['honest_paid']} paid, "
        f"{totals['honest_convicted']} convicted. {totals['inconclusive']} audits were inconclusive, "
        f"{totals['lost']} trials broke the infrastructure."
    )
