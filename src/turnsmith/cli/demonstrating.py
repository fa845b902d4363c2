"""`tasks demonstrate`: write demonstrations of tasks, which a model imitates before it learns by itself."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import Chosen, Json, Limit, TaskPath, answer, resumable, work_in_sandboxes
from turnsmith.cli.tasks import open_tasks
from turnsmith.config import RunConfig
from turnsmith.config.files import lay_over, read_toml
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.tasks.sets.trajectories import FILE_NAME
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.recipes.demonstrations import Demonstrations

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the demonstrations.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Configuration of the run that will imitate them: agent, sandbox, rollouts."
    ),
]
Number = Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="Episodes of each task.")]
Reproduce = Annotated[
    float,
    typer.Option("--reproduce", metavar="P", min=0, max=1, help="Share of episodes that begin with the failing test."),
]
Mistakes = Annotated[
    float,
    typer.Option("--mistakes", metavar="P", min=0, max=1, help="Share of episodes with a mistake that is repaired."),
]
ShortBody = Annotated[
    int,
    typer.Option(
        "--short-body", metavar="N", min=0, help="Lines of a function's body up to which an edit rewrites all of it."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
HINT = "Configuration keys can follow PATH as options, e.g. --agent.prompts brief or --agent.window_lines 10."


def demonstrate(
    context: typer.Context,
    path: TaskPath,
    out: Out,
    config: Config = None,
    limit: Limit = None,
    tasks: Chosen = None,
    number: Number = 1,
    reproduce: Reproduce = 0.5,
    mistakes: Mistakes = 0.2,
    short_body: ShortBody = 10,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write demonstrations of tasks.

    An expert that knows the gold patch plays episodes in sandboxes. It finds the code by what the tests, searches and files
    show, changes it, and tests the change. Episodes that the tests resolve are kept, for `cold_start.conversations`.

    The same command continues after an interruption.
    """
    from turnsmith.agent.expert.expert import Habits
    from turnsmith.recipes.demonstrations import DemonstrationSpec
    from turnsmith.recipes.demonstrations import demonstrate as play

    chosen = lay_over(read_toml(config) if config else {}, context.args, config or Path("the command line"), RunConfig)
    chosen = make_paths_absolute(chosen)
    task_set = open_tasks(path, chosen.sandbox, tasks, limit)
    spec = DemonstrationSpec(chosen, number, seed, Habits(reproduce, mistakes, short_body))
    with resumable():
        made = work_in_sandboxes(chosen.sandbox, partial(play, task_set, spec, out))
    data = {"folder": str(out), "num_conversations": len(made.conversations), "endings": made.endings}
    answer(data, partial(print_demonstrations, made, out), as_json=as_json)


def print_demonstrations(made: "Demonstrations", out: Path) -> None:
    """Print the number of episodes by ending, and the place of the conversations."""
    make_console().print(make_table(["ending", "episodes"], made.endings.most_common()))
    typer.echo(f"{len(made.conversations)} conversations in {out / FILE_NAME}")
