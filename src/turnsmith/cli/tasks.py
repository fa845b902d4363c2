"""Commands about task sets: `tasks make`, `tasks check`, `tasks stats`."""

import asyncio
import dataclasses
import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnsmith.config import SandboxConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.filters import count_changes
from turnsmith.types import Task
from turnsmith.ui.live import watching
from turnsmith.ui.tables import counts_table, lengths_table, yes_no_table
from turnsmith.ui.terminal import make_console

TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="JSONL file of tasks, or the folder that holds it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kind = Annotated[
    Literal["local", "subprocess"], typer.Option("--sandbox", help="subprocess isolates nothing from this machine.")
]


def make(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the tasks.")],
    package: Annotated[
        str | None, typer.Option("--package", metavar="name==version|PATH", help="Put bugs into a real package.")
    ] = None,
    num: Annotated[
        int | None, typer.Option("--num", metavar="N", min=1, help="With --package: number of tasks [default: 12].")
    ] = None,
    practice: Annotated[
        int | None, typer.Option("--practice", metavar="N", min=1, help="Make N tasks from generated repositories.")
    ] = None,
    split: Annotated[Literal["train", "heldout"], typer.Option("--split", help="With --practice.")] = "train",
    difficulty: Annotated[float, typer.Option("--difficulty", min=0, max=1, help="With --practice.")] = 0.3,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the making.")] = 0,
    sandbox: Kind = "local",
) -> None:
    """Make tasks from a package or from practice repositories."""
    if bool(package) == bool(practice):
        raise UsageError("give either --package name==version or --practice N")
    if practice and num:
        raise UsageError(f"--num goes with --package: --practice {practice} says already how many tasks to make")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already: give a new folder by --out, nothing is written over")
    config = TaskSetConfig(
        package=package, package_tasks=num or 12, practice_tasks=practice or 0, split=split, difficulty=difficulty
    )
    asyncio.run(make_in(out, config, seed, sandbox))
    typer.echo(f"{len(load_tasks(out))} tasks in {out}")


async def make_in(out: Path, config: TaskSetConfig, seed: int, sandbox: Literal["local", "subprocess"]) -> None:
    """Make the tasks in a new folder."""
    from turnsmith.recipes.task_sets import make_tasks
    from turnsmith.sandboxes import make_provider

    provider = make_provider(SandboxConfig(kind=sandbox))
    try:
        with watching() as progress:
            await make_tasks(out.name, config, seed, out, provider, progress)
    finally:
        await provider.close()


def check(path: TaskPath, as_json: Json = False, sandbox: Kind = "local") -> None:
    """Grade the gold patch and the untouched tree of each task.

    The one must score 1 and the other 0, or the task is not sound.
    """
    checks = asyncio.run(check_in(path, sandbox))
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(check) | {"is_sound": check.is_sound} for check in checks], indent=2))
    else:
        rows = [(check.is_sound, (check.instance_id, f"{check.duration_s:.1f} s", check.fault)) for check in checks]
        make_console().print(yes_no_table(["task", "sound", "took", "fault"], rows))
    broken = [check for check in checks if not check.is_sound]
    if broken:
        names = ", ".join(f"{check.instance_id} ({check.fault})" for check in broken)
        raise UsageError(
            f"{len(broken)} of {len(checks)} tasks in {path} are not sound: {names}: repair or remove them"
        )


async def check_in(path: Path, sandbox: Literal["local", "subprocess"]) -> list[Any]:
    """Check a task set."""
    from turnsmith.recipes.checking import check_tasks
    from turnsmith.recipes.task_sets import read_task_set
    from turnsmith.sandboxes import make_provider

    task_set = read_task_set(path.name, path)
    provider = make_provider(SandboxConfig(kind=sandbox))
    try:
        with watching() as progress:
            return await check_tasks(task_set, provider, progress)
    finally:
        await provider.close()


def stats(path: TaskPath, as_json: Json = False) -> None:
    """Count tasks, and measure their lengths."""
    tasks = load_tasks(path)
    counts, lengths = count_tasks(tasks), measure_tasks(tasks)
    if as_json:
        typer.echo(json.dumps({"num_tasks": len(tasks), "counts": counts, "lengths": lengths}, indent=2))
        return
    console = make_console()
    console.print(f"{len(tasks)} tasks in {path}")
    for name, counted in counts.items():
        console.print(counts_table(name, counted))
    console.print(lengths_table(lengths))


def count_tasks(tasks: list[Task]) -> dict[str, Counter[str]]:
    """`{"repo": {"toolz-1.0.0": 12}, "family": …, "kind": …}`."""
    return {
        "repo": Counter(task.repo for task in tasks),
        "family": Counter(str(task.meta.get("family", "unknown")) for task in tasks),
        "kind": Counter(str(task.meta.get("kind", "unknown")) for task in tasks),
    }


def measure_tasks(tasks: list[Task]) -> dict[str, dict[str, float]]:
    """Smallest, median and largest of what has a length."""
    measured = {
        "issue characters": [len(task.problem_statement) for task in tasks],
        "changed lines": [count_changes(task.patch)[1] for task in tasks],
        "failing tests": [len(task.FAIL_TO_PASS) for task in tasks],
        "passing tests": [len(task.PASS_TO_PASS) for task in tasks],
    }
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in measured.items()
        if values
    }
