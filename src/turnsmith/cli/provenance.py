"""`provenance`: verify that every token that a run trained on was sampled."""

import dataclasses
from typing import TYPE_CHECKING

import typer

from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import Json, Run, answer
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.terminal import to_line

if TYPE_CHECKING:
    from turnsmith.recipes.review.provenance import Traced


def provenance(run: Run, as_json: Json = False) -> None:
    """Verify that every trained token was sampled.

    Print the first broken link if there is one. The exit code is then 1.
    """
    from turnsmith.recipes.review.provenance import trace_run

    folder = RunFolder(run)
    traced = trace_run(folder)
    answer(to_json(traced), lambda: print_traced(traced), as_json=as_json)
    if folder.stop_reason.exists():
        typer.echo(f"stopped: {to_line(folder.stop_reason.read_text('utf-8'))}", err=True)
    if traced.broken:
        raise typer.Exit(EXIT_FAILED)


def to_json(traced: "Traced") -> dict[str, object]:
    """Return the result as JSON data; `broken` is the first broken link, or None."""
    broken = traced.broken
    link = broken and {"link": broken.link, "journal": str(broken.journal), **dataclasses.asdict(broken.found)}
    return dataclasses.asdict(traced) | {"broken": link}


def print_traced(traced: "Traced") -> None:
    """Print the proven counts, the unproven counts, and the first broken link."""
    typer.echo(
        f"proven        {traced.trajectories:,} trajectories, {traced.turns:,} turns, {traced.sampled_tokens:,} sampled tokens"
    )
    for count, reason in (
        (traced.lost, "trajectories were lost to the infrastructure; they never train"),
        (traced.without_digest, "trajectories have turns without a digest: an older version, or another engine"),
        (traced.retokenised, "RFT samples are imported text that was tokenised here: no engine sampled them"),
    ):
        if count:
            typer.echo(f"not proven    {count:,} {reason}")
    if traced.broken:
        typer.echo(f"broken        {traced.broken.link}: {to_line(str(traced.broken.found))}")
        typer.echo(f"journal       {traced.broken.journal}")
