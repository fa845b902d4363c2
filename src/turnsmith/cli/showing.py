"""`show`: print the iterations of a run, a table of its trajectories, or one trajectory turn by turn."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json, Run, answer
from turnsmith.cli.results import print_results
from turnsmith.config import COLD_START, RFT
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, is_held
from turnsmith.runs.journal import JournalEntry
from turnsmith.runs.versions import read_versions
from turnsmith.types import Outcome, Trajectory
from turnsmith.ui.reading import (
    find_state,
    find_task,
    list_entries,
    name_stage,
    read_costs,
    read_iterations,
    read_outline,
    read_prompt,
    read_results,
)
from turnsmith.ui.tables import describe_shared, endings_table, iterations_table, trajectories_table, updates_table
from turnsmith.ui.terminal import make_console, to_line
from turnsmith.ui.trajectory import show_trajectory

LEGEND = """signal: groups whose rewards differ, of all groups
suspicious: trajectories with a flag
gap: mean difference between the log-probs of engine and trainer, in nats
seconds: for the episodes + for the optimizer steps"""
"""Explanation of headings of the table of iterations."""
UPDATE_LEGEND = """tokens, s: tokens and seconds of the optimizer steps
TFLOP/s, MFU: useful operations of one rank, and their share of a GPU's peak
attn., head, comm., opt., wait: shares of these seconds"""
"""Explanation of headings of the table of optimizer steps."""
Id = Annotated[
    str,
    typer.Option(
        "--trajectory", metavar="ID", help="Short id of one trajectory, or prefix of several ids, e.g. eval-base."
    ),
]
TaskId = Annotated[
    str,
    typer.Option("--task", metavar="ID", help="Id of a task, or its beginning; selects attempts of all stages."),
]
Outcomes = Annotated[
    list[Outcome] | None, typer.Option("--outcome", help="Only trajectories with this outcome; may be repeated.")
]
Order = Literal["run", "task", "outcome", "turns", "tokens", "seconds"]
Sort = Annotated[
    Order, typer.Option("--sort", help="Order of the trajectories: turns, tokens and seconds from large to small.")
]
ORDERS: dict[Order, Callable[[Trajectory], Any]] = {
    "run": lambda trajectory: 0,
    "task": lambda trajectory: trajectory.instance_id,
    "outcome": lambda trajectory: trajectory.outcome,
    "turns": lambda trajectory: -trajectory.num_turns,
    "tokens": lambda trajectory: -trajectory.num_tokens,
    "seconds": lambda trajectory: -trajectory.duration_s,
}
"""Value of `--sort` → function that returns the sort key of a trajectory. With equal keys, the order of the run is kept."""


@dataclass(frozen=True)
class TrajectoryChoice:
    """Selection and order of the trajectories to show."""

    beginning: str
    task: str
    outcomes: list[Outcome]
    order: Order

    @property
    def is_empty(self) -> bool:
        return not (self.beginning or self.task or self.outcomes) and self.order == "run"


def show(
    run: Run,
    trajectory: Id = "",
    task: TaskId = "",
    outcome: Outcomes = None,
    sort: Sort = "run",
    as_json: Json = False,
) -> None:
    """Show a run, or with options its trajectories: a table, or a single one turn by turn."""
    folder, choice = RunFolder(run), TrajectoryChoice(trajectory, task, outcome or [], sort)
    if choice.is_empty and folder.issue.exists():
        show_solved(folder, as_json=as_json)
    elif choice.is_empty:
        answer(run_to_json(folder), lambda: show_run(folder), as_json=as_json)
    else:
        found = find_entries(folder, choice)
        data = [entry_to_json(folder, entry) for entry in found] if as_json else None
        answer(data, lambda: show_trajectories(folder, choice, found), as_json=as_json)


def show_solved(folder: RunFolder, *, as_json: bool) -> None:
    """Show the solution of `turnsmith solve`. Raises UsageError if the command is still running or was killed."""
    from turnsmith.recipes.solve.solution import read_solution
    from turnsmith.ui.solving import show_solution

    if not folder.solution.exists():
        is_live = is_held(folder)
        state = "a process is working on it: wait" if is_live else "it was killed: run the command again"
        raise UsageError(f"{folder.path} has no solution yet, {state}; add --trajectory solve to see finished attempts")
    solution = read_solution(folder)
    data = solution.model_dump(mode="json")
    answer(data, lambda: show_solution(folder, solution, make_console()), as_json=as_json)


def run_to_json(folder: RunFolder) -> dict[str, Any]:
    """Convert state, results, costs and iterations of a run to JSON data. Raises UsageError."""
    results = read_results(folder)  # first, since it reports a folder without a run
    return {
        "state": find_state(folder),
        "finished": folder.results.exists(),
        "stopped": folder.stop_reason.read_text("utf-8").strip() if folder.stop_reason.exists() else None,
        "versions": [versions.model_dump() for versions in read_versions(folder)],
        "results": results,
        "costs": {stage: entry.model_dump() for stage, entry in read_costs(folder).items()},
        "iterations": [dataclasses.asdict(iteration) for iteration in read_iterations(folder)],
    }


def entry_to_json(folder: RunFolder, entry: JournalEntry) -> dict[str, Any]:
    """Convert a trajectory to JSON data; `prompt_text` is None if the prompt cannot be read."""
    facts = {"short_id": entry.short_id, "stage": name_stage(entry), **entry.trajectory.model_dump(mode="json")}
    try:
        return facts | {"prompt_text": read_prompt(folder, entry.trajectory)}
    except UsageError:
        return facts | {"prompt_text": None}


def show_run(folder: RunFolder) -> None:
    """Print the evaluations and iterations of a run, and commands that show more."""
    console, results, iterations = make_console(), read_results(folder), read_iterations(folder)
    print_results(folder)
    if results:
        console.print("", endings_table(results), "", sep="\n")
    if iterations:
        last = iterations[-1]
        console.print(iterations_table(iterations), LEGEND, "", sep="\n")
        if any("time/update_s" in iteration.metrics for iteration in iterations):
            console.print(updates_table(iterations), UPDATE_LEGEND, "", sep="\n")
        console.print(
            f"all metrics   {folder.iteration(last.stage, last.number).metrics}, and a file like it for each iteration",
            soft_wrap=True,
        )
    print_next_look(folder)


def print_next_look(folder: RunFolder) -> None:
    """Print a command that lists trajectories of this run, unless it only imitates conversations and evaluates nothing."""
    if begin_id(folder):
        typer.echo(f"trajectories  turnsmith show {quote(str(folder.path))} --trajectory {begin_id(folder)}")


def begin_id(folder: RunFolder) -> str:
    """Return the prefix of the trajectory ids of a run's last evaluation or else of its first stage; "" if it has no ids."""
    outline, results = read_outline(folder), read_results(folder)
    if folder.issue.exists():
        return "solve"
    if results or outline.eval_tasks:
        return f"eval-{results[-1]['stage'] if results else 'base'}"
    collecting = [name for name in outline.stage_names[1:] if name != COLD_START]
    if outline.rft and outline.rft.get("conversations"):
        collecting.remove(RFT)
    return next(iter(collecting), "")


def show_trajectories(folder: RunFolder, choice: TrajectoryChoice, found: list[JournalEntry]) -> None:
    """Print the trajectory that was selected, or a table if several were found."""
    if one := find_one(found, choice):
        show_one(folder, one)
        return
    console, name = make_console(), quote(str(folder.path))
    console.print(describe_shared(found), "", trajectories_table(found), "", sep="\n")
    typer.echo(f"one of them   turnsmith show {name} --trajectory {found[0].short_id}")


def show_one(folder: RunFolder, entry: JournalEntry) -> None:
    """Print one trajectory, and the command that lists all attempts at its task."""
    trajectory = entry.trajectory
    try:
        prompt = read_prompt(folder, trajectory)
    except UsageError as error:
        prompt = f"The prompt cannot be shown: {error}"
    show_trajectory(trajectory, prompt, find_task(folder, trajectory.instance_id), make_console())
    attempts = f"turnsmith show {quote(str(folder.path))} --task {quote(trajectory.instance_id)}"
    typer.echo(f"\nall attempts  {to_line(attempts)}")


def find_one(found: list[JournalEntry], choice: TrajectoryChoice) -> JournalEntry | None:
    """Return the trajectory whose id was given, or the only one whose id starts with it; None if there are several."""
    named = [each for each in found if choice.beginning in (each.short_id, each.trajectory.trajectory_id)]
    if named or (choice.beginning and len(found) == 1):
        return [*named, *found][0]  # an extended run may hold an older trajectory of this id, which comes later
    return None


def find_entries(folder: RunFolder, choice: TrajectoryChoice) -> list[JournalEntry]:
    """Find and sort the selected trajectories. Raises UsageError if there is none."""
    entries = list_entries(folder, choice.beginning, choice.task)
    found = [each for each in entries if not choice.outcomes or each.trajectory.outcome in choice.outcomes]
    if not found:
        raise UsageError(f"{folder.path} has no trajectory {describe(choice)}: {suggest(folder)}")
    key = ORDERS[choice.order]
    return sorted(found, key=lambda entry: key(entry.trajectory))


def describe(choice: TrajectoryChoice) -> str:
    asked = [f"with an id that begins with {choice.beginning!r}"] if choice.beginning else []
    asked += [f"of a task {choice.task!r}"] if choice.task else []
    asked += [f"with the outcome {' or '.join(choice.outcomes)}"] if choice.outcomes else []
    return " ".join(asked) or "yet"


def suggest(folder: RunFolder) -> str:
    """Suggest a command that lists trajectories of this run. Raises UsageError if a journal is damaged."""
    stages = dict.fromkeys(entry.trajectory.trajectory_id.partition("/")[0] for entry in list_entries(folder))
    if not stages:
        return "it has none at all: wait until the first episode has ended"
    return f"`turnsmith show {quote(str(folder.path))} --trajectory {[*stages][-1]}` lists some of them"
