"""`export`: write the policy of a run as a model directory with a model card."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnsmith.cli.options import Json, Run, answer
from turnsmith.config import RunConfig
from turnsmith.config.files import validate
from turnsmith.recipes.checkpoints import find_checkpoint
from turnsmith.runs.folder import RunFolder, locked, read_json
from turnsmith.runs.new_folders import building
from turnsmith.runs.versions import read_versions

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the model.")]
Name = Annotated[
    str,
    typer.Option(
        "--checkpoint", metavar="NAME", help="Checkpoint, e.g. rft, stage1 or stage1@4 [default: final policy]."
    ),
]
Dtype = Annotated[Literal["float32", "bfloat16"], typer.Option("--dtype", help="Data type of the weights.")]


def export(run: Run, out: Out, checkpoint: Name = "", dtype: Dtype = "float32", as_json: Json = False) -> None:
    """Export the final policy as a Hugging Face directory.

    The directory contains weights, tokenizer, chat template and a model card.
    """
    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
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
    """Name the software versions that trained the policy, each with its first day if there are several."""
    recorded = read_versions(folder)
    if len(recorded) > 1:
        return "; ".join(f"from {versions.since} on {versions}" for versions in recorded)
    return str(recorded[0]) if recorded else "unrecorded versions"
