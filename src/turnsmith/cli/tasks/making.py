"""`tasks make`: tasks from a package or from practice repositories."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnsmith.cli.options import Engine, Image, Json, SandboxKind, configure_sandbox, work_in_sandboxes
from turnsmith.cli.tasks.files import say_number
from turnsmith.config import TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import load_tasks

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the tasks.")]
Package = Annotated[
    str | None, typer.Option("--package", metavar="name==version|PATH", help="Put bugs into a real package.")
]
Num = Annotated[
    int | None, typer.Option("--num", metavar="N", min=1, help="With --package: number of tasks [default: 12].")
]
Practice = Annotated[
    int | None, typer.Option("--practice", metavar="N", min=1, help="Make N tasks from generated repositories.")
]
Split = Annotated[Literal["train", "heldout"] | None, typer.Option("--split", help="With --practice [default: train].")]
Difficulty = Annotated[float | None, typer.Option("--difficulty", min=0, max=1, help="With --practice [default: 0.3].")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the making.")]


def make(
    out: Out,
    package: Package = None,
    num: Num = None,
    practice: Practice = None,
    split: Split = None,
    difficulty: Difficulty = None,
    seed: Seed = 0,
    as_json: Json = False,
    sandbox: SandboxKind = "local",
    image: Image = "",
    engine: Engine = "",
) -> None:
    """Make tasks from a package or from practice repositories."""
    from turnsmith.recipes.task_sets import make_tasks

    given = {"num": num, "split": split, "difficulty": difficulty}
    config = choose_source(package, practice, {name: value for name, value in given.items() if value is not None})
    work_in_sandboxes(configure_sandbox(sandbox, image, engine), partial(make_tasks, out.name, config, seed, out))
    tasks = load_tasks(out)
    report = {"folder": str(out), "num_tasks": len(tasks), "instance_ids": [task.instance_id for task in tasks]}
    typer.echo(json.dumps(report, indent=2) if as_json else f"{say_number(tasks)} in {out}")


def choose_source(package: str | None, practice: int | None, given: dict[str, int | str | float]) -> TaskSetConfig:
    """What to make. Raises UsageError where options do not go together."""
    if bool(package) == bool(practice):
        raise UsageError("give either --package name==version or --practice N")
    if practice and "num" in given:
        raise UsageError(f"--num goes with --package: --practice {practice} says already how many tasks to make")
    if package and (ignored := [name for name in ("split", "difficulty") if name in given]):
        raise UsageError(f"--{ignored[0]} goes with --practice: leave it out for a package")
    chosen = {"package_tasks" if name == "num" else name: value for name, value in given.items()}
    return TaskSetConfig.model_validate({"package": package, "practice_tasks": practice or 0, **chosen})
