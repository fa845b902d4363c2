"""`export`: the policy of a run as a model directory with a card."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnsmith.cli.options import Json, Run
from turnsmith.config import RunConfig
from turnsmith.config.files import validate
from turnsmith.recipes.checkpoints import find_checkpoint
from turnsmith.runs.folder import RunFolder, locked, read_json
from turnsmith.runs.new_folders import building
from turnsmith.runs.versions import read_versions

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the model.")]
Name = Annotated[
    str, typer.Option("--checkpoint", metavar="NAME", help="E.g. rft, stage1 or stage1@4 [default: the final policy].")
]
Dtype = Annotated[Literal["float32", "bfloat16"], typer.Option("--dtype", help="Number format of the weights.")]


def export(run: Run, out: Out, checkpoint: Name = "", dtype: Dtype = "float32", as_json: Json = False) -> None:
    """Write the final policy of a run as a Hugging Face directory, with a model card."""
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
    typer.echo(json.dumps(facts) if as_json else "{checkpoint} of {run} is in {folder}, {dtype}".format_map(facts))


def describe_training(folder: RunFolder) -> str:
    """Name the software that trained; where it changed between two processes of the run, each with its first day."""
    recorded = read_versions(folder)
    if len(recorded) > 1:
        return "; ".join(f"from {versions.since} on {versions}" for versions in recorded)
    return str(recorded[0]) if recorded else "versions that nobody recorded"
