"""Commands about task sets: `tasks make`, `tasks check`, `tasks qualify`, `tasks stats`."""

import asyncio
import dataclasses
import json
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnsmith.cli.options import Engine, Image, Json, SandboxKind, configure_sandbox
from turnsmith.cli.sentences import EXIT_FAILED, EXIT_STOPPED
from turnsmith.config import SandboxConfig, TaskSetConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.filters import count_changes
from turnsmith.types import Task
from turnsmith.ui.live import watching
from turnsmith.ui.tables import counts_table, lengths_table, words_table, yes_no_table
from turnsmith.ui.terminal import make_console

MAX_NAMED = 3
"""Tasks that an error names; the table has all."""

TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="JSONL file of tasks, or the folder that holds it.")]


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
    split: Annotated[
        Literal["train", "heldout"] | None, typer.Option("--split", help="With --practice [default: train].")
    ] = None,
    difficulty: Annotated[
        float | None, typer.Option("--difficulty", min=0, max=1, help="With --practice [default: 0.3].")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the making.")] = 0,
    sandbox: SandboxKind = "local",
    image: Image = "",
    engine: Engine = "",
) -> None:
    """Make tasks from a package or from practice repositories."""
    if bool(package) == bool(practice):
        raise UsageError("give either --package name==version or --practice N")
    if practice and num:
        raise UsageError(f"--num goes with --package: --practice {practice} says already how many tasks to make")
    if package and (split or difficulty is not None):
        raise UsageError(f"--{'split' if split else 'difficulty'} goes with --practice: leave it out for a package")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already: give a new folder by --out, nothing is written over")
    config = TaskSetConfig(
        package=package,
        package_tasks=num or 12,
        practice_tasks=practice or 0,
        split=split or "train",
        difficulty=0.3 if difficulty is None else difficulty,
    )
    asyncio.run(make_in(out, config, seed, configure_sandbox(sandbox, image, engine)))
    typer.echo(f"{say_number(load_tasks(out))} in {out}")


async def make_in(out: Path, config: TaskSetConfig, seed: int, sandbox: SandboxConfig) -> None:
    """Make the tasks in a new folder."""
    from turnsmith.recipes.task_sets import make_tasks
    from turnsmith.sandboxes import make_provider

    provider = make_provider(sandbox)
    try:
        with watching() as progress:
            await make_tasks(out.name, config, seed, out, provider, progress)
    finally:
        await provider.close()


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
    if unchecked := [check for check in checks if not check.is_checked]:
        raise SandboxError(
            f"{len(unchecked)} of {say_number(checks)} in {path} could not be checked: {unchecked[0].fault}"
        )
    broken = [check for check in checks if not check.is_sound]
    if broken:
        names = ", ".join(f"{check.instance_id} ({check.fault})" for check in broken[:MAX_NAMED])
        names += ", …" if len(broken) > MAX_NAMED else ""
        raise UsageError(
            f"{len(broken)} of {say_number(checks)} in {path} are not sound: {names}: repair or remove them"
        )


async def check_in(path: Path, sandbox: SandboxConfig) -> list[Any]:
    """Check a task set."""
    from turnsmith.recipes.checking import check_tasks
    from turnsmith.recipes.task_sets import read_task_set
    from turnsmith.sandboxes import make_provider

    task_set = read_task_set(path.name, path)
    check_images(task_set.tasks, sandbox)
    provider = make_provider(sandbox)
    try:
        with watching() as progress:
            return await check_tasks(task_set, provider, progress)
    finally:
        await provider.close()


def qualify(
    path: TaskPath,
    repeats: Annotated[
        int,
        typer.Option("--repeats", metavar="N", min=2, help="Runs of gold patch and untouched tree; the paper has 50."),
    ] = 5,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="Tasks at once [default: one for each core].")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="S", min=1, help="Seconds that the tests of a task may take.")
    ] = 1_800.0,
    keep_missing_names: Annotated[
        bool,
        typer.Option("--keep-missing-names", help="Keep tasks whose tests only want names that the gold patch brings."),
    ] = False,
    hide: Annotated[
        list[str] | None,
        typer.Option(
            "--hide", metavar="DIR", help="Folder that sandboxes show empty, as sandbox.hidden; may be repeated."
        ),
    ] = None,
    plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            metavar="NAME",
            help="Plugin of pytest that tasks ask for, as sandbox.test_plugins; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
    image: Image = "",
    engine: Engine = "",
) -> None:
    """Find out which tasks are fit to be trained on.

    Scans for leaks, then runs the tests N times with the gold patch and without. The records are kept beside the task file.
    Exit code 1 where the infrastructure kept it from finding out.
    """
    from turnsmith.qualification.examination import Criteria

    hidden = [*SandboxConfig().hidden, *map(check_folder, hide or [])]
    config = configure_sandbox(sandbox, image, engine, hidden=hidden, test_plugins=plugins or [])
    criteria = Criteria(repeats, timeout_s, needs_names=not keep_missing_names, sandbox=config)
    try:
        records = asyncio.run(qualify_in(path, criteria, workers or os.cpu_count() or 1))
    except KeyboardInterrupt:
        typer.echo("stopped; what is found out is kept, and the same command goes on", err=True)
        raise typer.Exit(EXIT_STOPPED) from None
    if as_json:
        typer.echo(json.dumps([record.model_dump(mode="json") for record in records], indent=2))
    else:
        print_verdicts(records)
    if not all(record.verdict.is_final for record in records):
        raise typer.Exit(EXIT_FAILED)


def check_folder(name: str) -> str:
    """A folder to hide. Raises UsageError where there is none."""
    if not Path(name).is_absolute() or not Path(name).is_dir():
        raise UsageError(f"--hide {name}: there is no such folder: give the full path of one")
    return name


async def qualify_in(path: Path, criteria: Any, num_workers: int) -> list[Any]:
    """Qualify a task set."""
    from turnsmith.recipes.qualifying import qualify_task_set
    from turnsmith.recipes.task_sets import read_task_set
    from turnsmith.sandboxes import make_provider

    task_set = read_task_set(path.name, path)
    check_images(task_set.tasks, criteria.sandbox)
    provider = make_provider(criteria.sandbox)
    try:
        with watching() as progress:
            return await qualify_task_set(task_set, provider, criteria, num_workers, progress)
    finally:
        await provider.close()


def check_images(tasks: list[Task], sandbox: SandboxConfig) -> None:
    """What is proved of a task holds for its own image, or for none. Raises UsageError."""
    in_containers = sandbox.kind == "podman"
    wrong = [task for task in tasks if bool(task.image or sandbox.image) is not in_containers]
    if wrong and in_containers:
        raise UsageError(f"task {wrong[0].instance_id} names no image: give one by --sandbox.image")
    if wrong:
        raise UsageError(
            f"task {wrong[0].instance_id} lives in the image {wrong[0].image}, which --sandbox {sandbox.kind} does not "
            "use: give --sandbox podman"
        )


def print_verdicts(records: list[Any]) -> None:
    """What fell out and why, the flakes, and the counts."""
    from turnsmith.qualification.record import MEANINGS

    console, counts = make_console(), Counter(record.verdict for record in records)
    out = [record for record in records if not record.is_qualified]
    if out:
        console.print(words_table(["fell out", "verdict", "why"], [(r.instance_id, r.verdict, r.detail) for r in out]))
    shaky = [(r.instance_id, test, _counts(r, test)) for r in records for test in r.quarantined]
    if shaky:
        console.print(words_table(["in quarantine", "test", "passes"], shaky))
    rows = [(verdict, str(count), MEANINGS[verdict]) for verdict, count in counts.most_common()]
    console.print(words_table(["verdict", "tasks", "meaning"], rows))
    console.print(f"{counts[records[0].verdict.QUALIFIED]} of {len(records)} tasks are qualified, {len(out)} fell out")


def _counts(record: Any, test: str) -> str:
    passes = record.passes[test]
    return f"{passes.gold} of {record.repeats} with the gold patch, {passes.base} without"


def stats(path: TaskPath, as_json: Json = False) -> None:
    """Count tasks, and measure their lengths."""
    tasks = load_tasks(path)
    counts, lengths = count_tasks(tasks), measure_tasks(tasks)
    if as_json:
        typer.echo(json.dumps({"num_tasks": len(tasks), "counts": counts, "lengths": lengths}, indent=2))
        return
    console = make_console()
    console.print(f"{say_number(tasks)} in {path}")
    for name, counted in counts.items():
        console.print(counts_table(name, counted))
    console.print(lengths_table(lengths))


def say_number(tasks: Sequence[Any]) -> str:
    """`1 task`, `12 tasks`."""
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"


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
