"""`results`, `compare`, `audit` and `doctor`: commands that examine runs, models or this machine."""

import dataclasses
from functools import partial
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json, Run, answer, work_in_sandboxes
from turnsmith.config import ChatConfig, RunConfig
from turnsmith.config.files import validate
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.ui.comparison import compare as compare_all
from turnsmith.ui.comparison import comparison_table
from turnsmith.ui.reading import (
    find_state,
    read_costs,
    read_results,
)
from turnsmith.ui.tables import (
    costs_table,
    count_up,
    lacks_isolation,
    list_remarks,
    make_table,
    name_verdict,
    results_table,
    yes_no_table,
)
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.recipes.review.audit import Review

ADDRESS = """A and B are RUN, RUN:STAGE or RUN:STAGE/TASK_SET. For example, runs/a is the last evaluated checkpoint, runs/a:base
the base policy, and runs/a:stage1/practice one evaluation. If A or B has several task sets, all that both have are
compared."""
First = Annotated[str, typer.Argument(metavar="A", help="RUN, RUN:STAGE or RUN:STAGE/TASK_SET.")]
Model = Annotated[str, typer.Option("--model.path", metavar="DIR", help="Check this model instead of the machine.")]
Template = Annotated[
    str,
    typer.Option(
        "--model.chat.template", metavar="WAY", help="Chat template: as-shipped, keep-turns, or the path of a template."
    ),
]
SystemPrompt = Annotated[
    Literal["system-message", "first-user-message"],
    typer.Option("--model.chat.system_prompt", help="Position of the system prompt."),
]
NumPatches = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Audit only N patches, chosen by the run's seed [default: all]."),
]
Second = Annotated[str, typer.Argument(metavar="B", help="As A. A gain is B minus A.")]


def show_results(run: Run, as_json: Json = False) -> None:
    """Print the results of each checkpoint on each task set."""
    folder = RunFolder(run)
    answer(read_results(folder), lambda: print_results(folder), as_json=as_json)
    if as_json:
        warn_of_missing_isolation(folder, err=True)


def print_results(folder: RunFolder) -> None:
    """Print the results, the costs, warnings, and the state of an unfinished run."""
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
    """Print a warning if the sandboxes of a run isolated nothing."""
    if any(map(lacks_isolation, read_results(folder))):
        typer.echo("warning: neither agents nor tests were isolated, so a patch may have cheated", err=err)


def compare(first: First, second: Second, as_json: Json = False) -> None:
    """Compare two runs, stages or evaluations, paired by task."""
    comparisons = compare_all(first, second)

    def show() -> None:
        for comparison in comparisons:
            make_console().print(comparison_table(comparison), "", sep="\n")

    answer([comparison.to_json() for comparison in comparisons], show, as_json=as_json)


def audit(run: Run, limit: NumPatches = None, as_json: Json = False) -> None:
    """Check the resolved patches of a run for tampering.

    Patches that were already audited are not audited again.
    """
    from turnsmith.recipes.review.audit import review_run, sum_up

    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
    review = work_in_sandboxes(config.sandbox, partial(review_run, config, folder, limit))
    totals = sum_up(review.patches) | {"num_paid": review.num_paid, "seed": config.seed}
    data = {**totals, "patches": [patch.model_dump() for patch in review.patches]}
    answer(data, lambda: print_review(folder, review, totals), as_json=as_json)


def print_review(folder: RunFolder, review: "Review", totals: dict[str, Any]) -> None:
    """Print the audits of a run, and how many patches are left to audit."""
    audits = sorted(
        (patch.instance_id, name_verdict(patch.audit.verdict), patch.audit.reason) for patch in review.patches
    )
    print_audits([row for row in audits if row[1] != "honest"], totals)
    if (num := len(review.patches)) < review.num_paid:
        typer.echo(
            f"{num} of {review.num_paid} different patches are audited, chosen by seed {totals['seed']}: "
            f"`turnsmith audit {quote(str(folder.path))}` audits the rest"
        )


def print_audits(rows: list[tuple[str, str, str]], totals: dict[str, Any]) -> None:
    """Print the audits whose verdict is not `honest`, and the share of tampering."""
    console = make_console()
    counts = count_up({name_verdict(verdict): num for verdict, num in totals["counts"].items()})
    if rows:
        console.print(make_table(["task", "verdict", "reason"], rows))
    if totals["interval"] is None:
        console.print(f"no share of tampering: {counts or 'no patch resolved a task'}")
        return
    low, high = totals["interval"]
    console.print(
        f"{counts}: {totals['share_of_lies']:.1%} of the patches with a clear verdict tamper with the tests, "
        f"95 % interval {low:.1%} to {high:.1%}"
    )


def doctor(
    model: Model = "",
    template: Template = "as-shipped",
    system_prompt: SystemPrompt = "system-message",
    as_json: Json = False,
) -> None:
    """Check this machine or a model, and print remedies.

    With --model.path, check the weights and the chat template of that model.
    """
    if model:
        # importing transformers takes seconds
        from turnsmith.cli.models import examine_model

        chat = ChatConfig(template=template, system_prompt=system_prompt)
        subject, findings = "this model", examine_model(model, chat)
    else:
        from turnsmith.cli.machine import examine_machine

        subject, findings = "this machine", examine_machine()
    rows = [(finding.ok, (finding.name, finding.detail, finding.remedy)) for finding in findings]
    table = yes_no_table([subject, "", "found", "remedy"], rows)
    answer([dataclasses.asdict(each) for each in findings], lambda: make_console().print(table), as_json=as_json)
