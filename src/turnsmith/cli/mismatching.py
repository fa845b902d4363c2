"""`mismatch`: find why the sampler's log-probs differ from the policy's."""

from pathlib import Path
from typing import Annotated

import typer

from turnsmith.cli.options import Json, Run, answer
from turnsmith.config import RunConfig
from turnsmith.config.files import validate
from turnsmith.mismatch.report import MismatchReport
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.ui.live import watching
from turnsmith.ui.mismatch import places_table, toggles_table
from turnsmith.ui.terminal import make_console

Stage = Annotated[
    str | None, typer.Option("--stage", metavar="NAME", help="Stage, or rft [default: the last one that sampled].")
]
Number = Annotated[
    int | None, typer.Option("--iteration", metavar="N", min=0, help="Iteration, counted from 0 [default: the last].")
]
Rollouts = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Number of rollouts to score again.")]
Picture = Annotated[Path | None, typer.Option("--out", metavar="PICTURE", help="Also draw the result, as a PNG.")]


def mismatch(
    run: Run,
    stage: Stage = None,
    iteration: Number = None,
    limit: Rollouts = 32,
    as_json: Json = False,
    out: Picture = None,
) -> None:
    """Find why the engine's log-probs differ from the policy's.

    Rollouts of one iteration are scored again, with one suspected fault at a time.
    """
    from turnsmith.recipes.review.mismatch import examine_run

    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
    with watching() as progress:
        report = examine_run(config, folder, stage, iteration, limit, progress)
    if out:
        from turnsmith.ui.mismatch_picture import draw_mismatch

        draw_mismatch(report, out)
    answer({**report.model_dump(), "conclusion": report.conclusion}, lambda: print_report(report), as_json=as_json)


def print_report(report: MismatchReport) -> None:
    """Print the tables, the remarks and the conclusion."""
    console = make_console()
    console.print(toggles_table(report), "", places_table(report), "", sep="\n")
    for remark in report.remarks:
        typer.echo(remark)
    typer.echo(
        f"{report.stage}/{report.iteration}, {report.num_trajectories} rollouts, {report.num_tokens} sampled tokens: "
        f"{report.conclusion}"
    )
