"""`results` and `compare`: show and compare finished evaluations of runs."""

from itertools import chain
from shlex import quote
from typing import Annotated

import typer

from turnsmith.cli.options import Json, Run, answer
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.breakdown import break_down, breakdown_table, to_json
from turnsmith.ui.comparison import compare as compare_all
from turnsmith.ui.comparison import comparison_table
from turnsmith.ui.reading import find_state, read_costs, read_results
from turnsmith.ui.tables import costs_table, lacks_isolation, list_remarks, results_table
from turnsmith.ui.terminal import make_console, to_line

ADDRESS = """A and B are RUN, RUN:STAGE or RUN:STAGE/TASK_SET. For example, runs/a is the last evaluated checkpoint, runs/a:base
the base policy, and runs/a:stage1/practice one evaluation. Without TASK_SET, A and B are compared on each
task set that both have. The stage `best` is the one with the highest Pass@1: runs/a:best is the best stage, other
than A's, and the p-value is corrected for the choice. A and B may also be reports that `turnsmith grade` or SWE-bench's
harness writes, the folder of a report, or a graded file of predictions."""
First = Annotated[
    str, typer.Argument(metavar="A", help="First evaluation: RUN, RUN:STAGE, RUN:STAGE/TASK_SET or a report.")
]
Second = Annotated[str, typer.Argument(metavar="B", help="Second evaluation, in the form of A. Gains are B minus A.")]
BestOf = Annotated[
    str,
    typer.Option(
        "--best-of",
        metavar="STAGE,STAGE",
        show_default=False,
        help="Stages among which B was chosen as the best; the p-value is corrected for the choice.",
    ),
]

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="KEY",
        help="Break the gains down by repository, turns of A, or a column of the tasks' meta, e.g. mutator.",
    ),
]


def show_results(run: Run, as_json: Json = False) -> None:
    """Print the results of each checkpoint on each task set."""
    folder = RunFolder(run)
    answer(read_results(folder), lambda: print_results(folder), as_json=as_json)
    if as_json:
        warn_of_missing_isolation(folder, err=True)


def print_results(folder: RunFolder) -> None:
    """Print a run's results, costs, warnings and, if it is unfinished, its state."""
    if results := read_results(folder):
        make_console().print(results_table(results))
        for remark in chain.from_iterable(map(list_remarks, results)):
            typer.echo(remark)
        warn_of_missing_isolation(folder)
    else:
        typer.echo("no evaluation has finished yet")
    if costs := read_costs(folder):
        make_console().print(costs_table(costs))
    if remark := describe_state(folder):
        typer.echo(remark)


def describe_state(folder: RunFolder) -> str:
    """Describe the state of an unfinished run: running, stopped, or how to resume it; empty if finished."""
    match find_state(folder):
        case "running":
            return f"running: a process is working in {folder.path}"
        case "stopped":
            return f"stopped: {to_line(folder.stop_reason.read_text('utf-8'))}"
        case "unfinished":
            return f"not finished: `turnsmith resume {quote(str(folder.path))}` continues it"
    return ""


def warn_of_missing_isolation(folder: RunFolder, *, err: bool = False) -> None:
    """Print a warning if a run used sandboxes without any isolation."""
    if any(map(lacks_isolation, read_results(folder))):
        typer.echo("warning: neither agents nor tests were isolated, so a patch may have cheated", err=err)


def compare(first: First, second: Second, best_of: BestOf = "", by: By = None, as_json: Json = False) -> None:
    """Compare two runs, stages, evaluations or reports, paired by task."""
    comparisons = compare_all(first, second, [stage.strip() for stage in best_of.split(",") if stage.strip()])
    breakdowns = [{each: break_down(comparison, each) for each in by or []} for comparison in comparisons]

    def show() -> None:
        for comparison, breakdown in zip(comparisons, breakdowns, strict=True):
            tables = [breakdown_table(rows, each) for each, rows in breakdown.items()]
            for table in (comparison_table(comparison), *tables):
                make_console().print(table, "", sep="\n")

    data = [
        comparison.to_json() | {f"by_{each}": to_json(rows) for each, rows in breakdown.items()}
        for comparison, breakdown in zip(comparisons, breakdowns, strict=True)
    ]
    answer(data, show, as_json=as_json)
