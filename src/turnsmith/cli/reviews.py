"""`audit`, `mismatch`, `provenance` and `export`: commands that check or export the policy of a run."""

import dataclasses
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import Json, Run, answer, work_in_sandboxes
from turnsmith.errors import UsageError
from turnsmith.mismatch.report import MismatchReport
from turnsmith.recipes.checkpoints import find_checkpoint
from turnsmith.recipes.results import read_config
from turnsmith.runs.folder import RunFolder, locked
from turnsmith.runs.new_folders import building
from turnsmith.runs.versions import read_versions
from turnsmith.ui.live import watching
from turnsmith.ui.tables import causes_table, count_up, make_table, stretches_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.recipes.review.audit import Review
    from turnsmith.recipes.review.provenance import ProvenanceCounts

NumPatches = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Audit only N patches, chosen by the run's seed [default: all]."),
]
Stage = Annotated[
    str | None, typer.Option("--stage", metavar="NAME", help="RL stage, or rft [default: last stage with rollouts].")
]
Number = Annotated[
    int | None, typer.Option("--iteration", metavar="N", min=0, help="Iteration, counted from 0 [default: the last].")
]
Picture = Annotated[Path | None, typer.Option("--out", hidden=True)]
Rollouts = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Number of rollouts to examine.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the model.")]
Name = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="NAME", help="rft, stage1, or stage1@4 (after 4 iterations) [default: final policy]."
    ),
]
Dtype = Annotated[Literal["float32", "bfloat16"], typer.Option("--dtype", help="Data type of the weights.")]


def audit(run: Run, limit: NumPatches = None, as_json: Json = False) -> None:
    """Check the resolved patches of a run for tampering.

    Patches that were already audited are not audited again.
    """
    from turnsmith.recipes.review.audit import review_run, sum_up

    folder = RunFolder(run)
    config = read_config(folder)
    review = work_in_sandboxes(config.sandbox, partial(review_run, config, folder, limit))
    totals = sum_up(review.patches) | {"num_paid": review.num_patches, "seed": config.seed}
    data = {**totals, "patches": [patch.model_dump() for patch in review.patches]}
    answer(data, lambda: print_review(folder, review, totals), as_json=as_json)


def print_review(folder: RunFolder, review: "Review", totals: dict[str, Any]) -> None:
    """Print the audits of a run, and how many patches are left to audit."""
    audits = sorted((patch.instance_id, patch.audit.verdict, patch.audit.reason) for patch in review.patches)
    print_audits([row for row in audits if row[1] != "honest"], totals)
    if (num := len(review.patches)) < review.num_patches:
        typer.echo(
            f"{num} of {review.num_patches} different patches are audited, chosen by seed {totals['seed']}: "
            f"`turnsmith audit {quote(str(folder.path))}` audits the rest"
        )


def print_audits(rows: list[tuple[str, str, str]], totals: dict[str, Any]) -> None:
    """Print the patches whose audit's verdict is not `honest`, and the share of patches that tamper with tests."""
    console = make_console()
    counts = count_up(totals["counts"])
    if rows:
        console.print(make_table(["task", "verdict", "reason"], rows))
    if totals["interval"] is None:
        console.print(f"the share of tampering is unknown: {counts or 'no patch resolved a task'}")
        return
    low, high = totals["interval"]
    console.print(
        f"{counts}: {totals['share_failed']:.1%} of the patches with a clear verdict tamper with the tests, "
        f"95 % interval {low:.1%} to {high:.1%}"
    )


def mismatch(
    run: Run,
    stage: Stage = None,
    iteration: Number = None,
    limit: Rollouts = 32,
    as_json: Json = False,
    picture: Picture = None,
) -> None:
    """Find why the engine's log-probs differ from the policy's.

    Log-probs of an iteration's rollouts are recomputed with one possible fault (e.g. older weights) at a time, to see which fits.
    """
    from turnsmith.recipes.review.mismatch import examine_run

    if picture is not None:
        raise UsageError("--out was removed: `turnsmith mismatch RUN --json` prints the numbers of the picture")
    folder = RunFolder(run)
    config = read_config(folder)
    with watching() as progress:
        report = examine_run(config, folder, stage, iteration, limit, progress)
    answer({**report.model_dump(), "conclusion": report.conclusion}, lambda: print_report(report), as_json=as_json)


def print_report(report: MismatchReport) -> None:
    """Print the tables, notes and conclusion of `mismatch`."""
    console = make_console()
    console.print(causes_table(report), "", stretches_table(report), "", sep="\n")
    for remark in report.remarks:
        typer.echo(remark)
    typer.echo(
        f"{report.stage}/{report.iteration}, {report.num_trajectories} rollouts, {report.num_tokens} sampled tokens: "
        f"{report.conclusion}"
    )


def provenance(run: Run, as_json: Json = False) -> None:
    """Verify that every token used for training was sampled by the policy.

    If a recorded digest does not match its tokens, print the first such place and exit with 1.
    """
    from turnsmith.recipes.review.provenance import trace_run

    folder = RunFolder(run)
    counts = trace_run(folder)
    answer(to_json(counts), lambda: print_traced(counts), as_json=as_json)
    if folder.stop_reason.exists():
        typer.echo(f"stopped: {to_line(folder.stop_reason.read_text('utf-8'))}", err=True)
    if counts.broken:
        raise typer.Exit(EXIT_FAILED)


def to_json(counts: "ProvenanceCounts") -> dict[str, object]:
    """Convert the result of `provenance` to JSON data. `broken` describes the first digest that differs, or is None."""
    broken = counts.broken
    link = broken and {"link": broken.step, "journal": str(broken.journal), **dataclasses.asdict(broken.found)}
    return dataclasses.asdict(counts) | {"broken": link}


def print_traced(counts: "ProvenanceCounts") -> None:
    """Print the numbers of proven and unproven trajectories, and the first digest that differs."""
    typer.echo(
        f"proven        {counts.trajectories:,} trajectories, {counts.turns:,} turns, {counts.sampled_tokens:,} sampled tokens"
    )
    for count, reason in (
        (counts.lost, "trajectories were lost to the infrastructure; training never uses them"),
        (counts.without_digest, "trajectories have turns without a digest: an older version, or another engine"),
        (counts.retokenised, "RFT samples are imported text that was tokenised here: no engine sampled them"),
    ):
        if count:
            typer.echo(f"not proven    {count:,} {reason}")
    if counts.broken:
        typer.echo(f"broken        {counts.broken.step}: {to_line(str(counts.broken.found))}")
        typer.echo(f"journal       {counts.broken.journal}")


def export(run: Run, out: Out, checkpoint: Name = "", dtype: Dtype = "float32", as_json: Json = False) -> None:
    """Export the final policy as a Hugging Face directory.

    The directory contains weights, tokenizer, chat template and a model card.
    """
    folder = RunFolder(run)
    config = read_config(folder)
    with locked(folder):
        found = find_checkpoint(config, folder, checkpoint)
        with building(out) as new:
            from turnsmith.training.export import write_model
            from turnsmith.ui.model_card import write_card

            write_model(found.directory, new, dtype, config.model.chat)
            card = write_card(config, folder, found, {"weights": dtype, "trained with": describe_training(folder)})
            (new / "README.md").write_text(card, encoding="utf-8")
    facts = {"checkpoint": found.name, "run": str(run), "folder": str(out), "dtype": dtype}
    answer(facts, lambda: typer.echo(f"{found.name} of {run} is in {out}, {dtype}"), as_json=as_json)


def describe_training(folder: RunFolder) -> str:
    """Name the software versions that trained the policy, each with the day of its first use if there are several."""
    recorded = read_versions(folder)
    if len(recorded) > 1:
        return "; ".join(f"from {versions.since} on {versions}" for versions in recorded)
    return str(recorded[0]) if recorded else "unrecorded versions"
