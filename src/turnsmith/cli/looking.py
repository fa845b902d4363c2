"""Commands that only look: `results` and `audit` at a run, `compare` at two, `doctor` at this machine."""

import dataclasses
import json
from functools import partial
from itertools import chain
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json, Run, work_in_sandboxes
from turnsmith.config import ChatConfig, RunConfig
from turnsmith.config.files import validate
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.ui.comparison import compare as compare_all
from turnsmith.ui.comparison import comparison_table
from turnsmith.ui.reading import (
    find_state,
    read_costs,
    read_outline,
    read_results,
)
from turnsmith.ui.tables import (
    costs_table,
    count_up,
    list_remarks,
    make_table,
    name_verdict,
    results_table,
    yes_no_table,
)
from turnsmith.ui.terminal import make_console, to_line

ADDRESS = """A and B are RUN, RUN:STAGE or RUN:STAGE/TASK_SET: runs/a is the last checkpoint that was evaluated,
runs/a:base the policy that it began with, runs/a:stage1/practice one evaluation. Two evaluations are compared;
otherwise all task sets that A and B share."""
First = Annotated[str, typer.Argument(metavar="A", help="RUN, RUN:STAGE or RUN:STAGE/TASK_SET.")]
Model = Annotated[str, typer.Option("--model.path", metavar="DIR", help="Look at this model in place of the machine.")]
Template = Annotated[
    str, typer.Option("--model.chat.template", metavar="WAY", help="as-shipped, keep-turns, or the path of a template.")
]
SystemPrompt = Annotated[
    Literal["system-message", "first-user-message"],
    typer.Option("--model.chat.system_prompt", help="Where the system prompt stands."),
]
NumPatches = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Only N patches, chosen by the seed of the run [default: all]."),
]
Second = Annotated[str, typer.Argument(metavar="B", help="The same; a gain is what B has more than A.")]


def show_results(run: Run, as_json: Json = False) -> None:
    """What each checkpoint reached on each task set."""
    folder = RunFolder(run)
    if as_json:
        typer.echo(json.dumps(read_results(folder), indent=2))
        warn_of_cheats(folder, err=True)
    else:
        print_results(folder)


def print_results(folder: RunFolder) -> None:
    """Print the table, a warning where the numbers may not be trusted, and the state of an unfinished run."""
    if results := read_results(folder):
        make_console().print(results_table(results))
        for remark in chain.from_iterable(map(list_remarks, results)):
            typer.echo(remark)
        warn_of_cheats(folder)
    else:
        typer.echo("no evaluation is finished yet")
    if costs := read_costs(folder):
        make_console().print(costs_table(costs))
    if remark := describe_state(folder):
        typer.echo(remark)


def describe_state(folder: RunFolder) -> str:
    """Say of an unfinished run that it is running, why it stopped, or how it goes on; empty where it is finished."""
    match find_state(folder):
        case "running":
            return f"running: a process is at work in {folder.path}"
        case "stopped":
            return f"stopped: {to_line(folder.stop_reason.read_text('utf-8'))}"
        case "unfinished":
            return f"not finished: `turnsmith resume {quote(str(folder.path))}` goes on"
    return ""


def warn_of_cheats(folder: RunFolder, *, err: bool = False) -> None:
    """A line where nothing was isolated."""
    if read_outline(folder).sandbox.kind == "subprocess":
        typer.echo(
            "warning: sandbox.kind was subprocess: neither agents nor tests were isolated, so a patch may have cheated",
            err=err,
        )


def compare(first: First, second: Second, as_json: Json = False) -> None:
    """Two runs, stages or evaluations, paired by task: different, or noise?"""
    comparisons = compare_all(first, second)
    if as_json:
        typer.echo(json.dumps([comparison.to_json() for comparison in comparisons], indent=2))
        return
    for comparison in comparisons:
        make_console().print(comparison_table(comparison), "", sep="\n")


def audit(run: Run, limit: NumPatches = None, as_json: Json = False) -> None:
    """Look for tampering among the patches of a run that resolved their tasks; what was audited is not done again."""
    from turnsmith.recipes.review.audit import review_run, sum_up

    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
    review = work_in_sandboxes(config.sandbox, partial(review_run, config, folder, limit))
    totals = sum_up(review.patches) | {"num_paid": review.num_paid, "seed": config.seed}
    if as_json:
        typer.echo(json.dumps({**totals, "patches": [patch.model_dump() for patch in review.patches]}, indent=2))
        return
    audits = sorted(
        (patch.instance_id, name_verdict(patch.audit.verdict), patch.audit.reason) for patch in review.patches
    )
    print_audits([row for row in audits if row[1] != "honest"], totals)
    if (num := len(review.patches)) < review.num_paid:
        typer.echo(
            f"{num} of {review.num_paid} different patches are audited, chosen by seed {config.seed}: "
            f"`turnsmith audit {quote(str(run))}` audits the rest"
        )


def print_audits(rows: list[tuple[str, str, str]], totals: dict[str, Any]) -> None:
    """Print the audits that are not `honest`, and the share of tampering."""
    console = make_console()
    counts = count_up({name_verdict(verdict): num for verdict, num in totals["counts"].items()})
    if rows:
        console.print(make_table(["task", "verdict", "why"], rows))
    if totals["interval"] is None:
        console.print(f"nothing can be said: {counts or 'no patch resolved a task'}")
        return
    low, high = totals["interval"]
    console.print(
        f"{counts}: {totals['share_of_lies']:.1%} of the patches that were honest or failed are tampering, "
        f"95 % interval {low:.1%} to {high:.1%}"
    )


def doctor(
    model: Model = "",
    template: Template = "as-shipped",
    system_prompt: SystemPrompt = "system-message",
    as_json: Json = False,
) -> None:
    """Check this machine, or the weights and the chat template of a model; name remedies."""
    if model:
        # transformers takes seconds, which a look at the machine need not wait for
        from turnsmith.cli.models import examine_model

        subject, findings = (
            "this model",
            examine_model(model, ChatConfig(template=template, system_prompt=system_prompt)),
        )
    else:
        from turnsmith.cli.machine import examine_machine

        subject, findings = "this machine", examine_machine()
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        rows = [(finding.ok, (finding.name, finding.detail, finding.remedy)) for finding in findings]
        make_console().print(yes_no_table([subject, "", "found", "remedy"], rows))
