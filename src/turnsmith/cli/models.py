"""`models`: make model directories from published files."""

from pathlib import Path
from typing import Annotated

import typer

from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.training.published.hub import PREFIX
from turnsmith.training.published.hub import download as download_from_hub

HELP = "Make model directories from published files."
Source = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="Name of a published model, hub:OWNER/NAME, or a GGUF file.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Model directory to write.")]


def get(source: Source, out: Out = None) -> None:
    """Fetch a model of the Hugging Face hub or of a package of the package index, or convert a GGUF file.

    Without --out, a model of the hub stays in the hub's cache and is used by its name. Other models need --out.
    """
    if out and out.exists():
        raise UsageError(f"{out} exists already: give another name, or remove it")
    if source.startswith(PREFIX) and out:
        # After an interruption, the same command continues in this folder.
        partial = out.with_name(f".{out.name}.partial")
        download_from_hub(source, partial).rename(out)
    elif source.startswith(PREFIX):
        download_from_hub(source)
    else:
        make_directory(source, out)
    path = out or source
    typer.echo(f"{path}: use it as --model.path {path}; check it by turnsmith doctor --model.path {path}")


def make_directory(source: str, out: Path | None) -> None:
    """Convert a GGUF file, or the one in a package, to a model directory. Raises UsageError."""
    require("gguf", "tokenizers", subject="models get")
    from turnsmith.training.published.directory import convert
    from turnsmith.training.published.packages import PACKAGES, download

    if source not in PACKAGES and not Path(source).is_file():
        known = ", ".join(PACKAGES)
        raise UsageError(
            f"{source} is neither a file, nor hub:OWNER/NAME, nor one of the models {known}: give one of them"
        )
    if out is None:
        raise UsageError(f"the model directory for {source} is missing: give --out DIR")
    with temporary_folder("download") as folder:
        if source in PACKAGES:
            typer.echo(f"downloading {PACKAGES[source].requirement}, licence {PACKAGES[source].licence}", err=True)
        convert(download(source, folder) if source in PACKAGES else Path(source), out)
