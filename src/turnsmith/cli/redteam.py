"""The command `redteam`: does any attack get a reward, or an honest patch none?"""

import asyncio
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.redteam.scripts import Script
    from turnsmith.redteam.trials import Trial

TargetName = Annotated[
    Literal["toy", "package"] | None,
    typer.Option("--task", help="What is attacked [default: all]; package needs the package index."),
]
Rounds = Annotated[
    int,
    typer.Option("--rounds", min=1, help="How often each is tried: what a verdict rests on is drawn anew each time."),
]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this script; may be repeated.")]


List = Annotated[bool, typer.Option("--list", help="Only say what there is to try.")]


def redteam(
    task: TargetName = None, only: Only = None, rounds: Rounds = 1, as_list: List = False, as_json: Json = False
) -> None:
    """Attack the grader with all tricks known, and see that honest patches are paid.

    Exit code 1 where an attack is paid or breaks the infrastructure, or where an honest patch is not paid.
    """
    chosen = choose_scripts(only or [])
    if as_list:
        print_scripts(chosen, as_json=as_json)
        return
    trials = asyncio.run(attack([task] if task else ["toy", "package"], chosen, rounds))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(trial) for trial in trials], indent=2))
    else:
        print_trials(trials)
    if not all(trial.is_right for trial in trials):
        raise typer.Exit(EXIT_FAILED)


def print_scripts(scripts: "list[Script]", *, as_json: bool) -> None:
    """Names, kinds, and what each tries."""
    rows = [(script.name, script.kind, script.tried) for script in scripts]
    if as_json:
        typer.echo(json.dumps([dict(zip(("name", "kind", "tried"), row, strict=True)) for row in rows], indent=2))
        return
    table = make_table(["script", "kind", "tries"], num_names=3)
    for row in rows:
        table.add_row(*row)
    make_console().print(table)


def choose_scripts(names: list[str]) -> "list[Script]":
    """The scripts of these names, or all. Raises UsageError for a name that none has."""
    from turnsmith.redteam.scripts import read_scripts

    scripts = {script.name: script for script in read_scripts()}
    unknown = [name for name in names if name not in scripts]
    if unknown:
        raise UsageError(f"no script is named {unknown[0]!r}: `turnsmith redteam --list` shows all of them")
    return [scripts[name] for name in names] or list(scripts.values())


async def attack(names: list[str], scripts: "list[Script]", num_rounds: int) -> "list[Trial]":
    """Make the targets in a folder that goes away, and run every script on each. Only isolated sandboxes will do."""
    from turnsmith.redteam.targets import MAKERS
    from turnsmith.redteam.trials import try_all
    from turnsmith.sandboxes import make_provider

    provider = make_provider(SandboxConfig(kind="local"))
    try:
        with tempfile.TemporaryDirectory(prefix="turnsmith-redteam-") as folder, watching() as progress:
            targets = [await MAKERS[name](Path(folder, name), provider) for name in names]
            return [trial for _ in range(num_rounds) for trial in await try_all(scripts, targets, provider, progress)]
    finally:
        await provider.close()


def print_trials(trials: "list[Trial]") -> None:
    """A table, and the sum of it."""
    table = make_table(["script", "task", "tried", "reward", "stopped by"], num_names=5)
    for trial in trials:
        reward = "lost" if trial.reward is None else f"{trial.reward:g}"
        wrong = "" if trial.is_right else "bold red"
        cells = [trial.name, trial.task, trial.tried, reward, to_line(trial.stopped_by)]
        table.add_row(*cells, style=wrong)
    console = make_console()
    console.print(table)
    console.print(summarise(trials))


def summarise(trials: "list[Trial]") -> str:
    """`2 attacks in 4 trials: 0 paid, 0 broke the infrastructure. 2 honest patches in 4 trials: 4 paid.`"""
    attacks = [trial for trial in trials if trial.kind == "attack"]
    honest = [trial for trial in trials if trial.kind == "honest"]
    paid, lost = (sum(trial.reward == reward for trial in attacks) for reward in (1.0, None))
    return (
        f"{_count(attacks, 'attacks')}: {paid} paid, {lost} broke the infrastructure. "
        f"{_count(honest, 'honest patches')}: {sum(trial.is_right for trial in honest)} paid."
    )


def _count(trials: "list[Trial]", what: str) -> str:
    return f"{len({trial.name for trial in trials})} {what} in {len(trials)} trials"
