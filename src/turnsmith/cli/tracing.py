"""`turnsmith provenance`: was every token that a run trained on sampled?"""

import dataclasses
import json
from typing import TYPE_CHECKING

import typer

from turnsmith.cli.options import Json, Run
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.terminal import to_line

if TYPE_CHECKING:
    from turnsmith.recipes.review.provenance import Traced


def provenance(run: Run, as_json: Json = False) -> None:
    """Prove that what a run trained on was sampled; where it was not, the first broken link, and exit code 1."""
    from turnsmith.recipes.review.provenance import trace_run

    folder = RunFolder(run)
    traced = trace_run(folder)
    if as_json:
        typer.echo(json.dumps(to_json(traced), indent=2))
    else:
        print_traced(traced)
    if folder.stop_reason.exists():
        typer.echo(f"stopped: {to_line(folder.stop_reason.read_text('utf-8'))}", err=True)
    if traced.broken:
        raise typer.Exit(EXIT_FAILED)


def to_json(traced: "Traced") -> dict[str, object]:
    told, broken = dataclasses.asdict(traced), traced.broken
    return told | {
        "broken": broken and {"link": broken.link, "journal": str(broken.journal), **dataclasses.asdict(broken.found)}
    }


def print_traced(traced: "Traced") -> None:
    """What is proven, what cannot be, and the first link that broke."""
    typer.echo(
        f"proven        {traced.trajectories:,} trajectories, {traced.turns:,} turns, {traced.sampled_tokens:,} sampled tokens"
    )
    for count, told in (
        (traced.lost, "trajectories were lost to the infrastructure; they never train"),
        (traced.without_digest, "trajectories have turns without a digest: an older version, or another engine"),
        (traced.retokenised, "samples of RFT are text of others, tokenised here: no engine sampled them"),
    ):
        if count:
            typer.echo(f"not proven    {count:,} {told}")
    if traced.broken:
        typer.echo(f"broken        {traced.broken.link}: {to_line(str(traced.broken.found))}")
        typer.echo(f"journal       {traced.broken.journal}")
