"""`report`: write the pages of a run into one file or a folder."""

from pathlib import Path
from typing import Annotated

import typer

from turnsmith.config.extras import require
from turnsmith.errors import UsageError

MEGABYTE = 10**6

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")]
Site = Annotated[
    Path | None,
    typer.Option("--site", metavar="DIR", help="Write a folder for a web server instead, with all trajectories."),
]
Limit = Annotated[
    float,
    typer.Option(
        "--max-mb", metavar="MB", min=1, max=10_000, help="Size up to which trajectories are added to the file."
    ),
]


def report(run: Run, out: Out = Path("report.html"), site: Site = None, max_mb: Limit = 18.0) -> None:
    """Write the pages of `turnsmith view` for one run into a file that a browser opens without a server or network."""
    require("starlette", "matplotlib", subject="report")
    from turnsmith.ui.view.opened import find_runs
    from turnsmith.ui.view.report import write_report, write_site

    target = site or out
    if target.exists():
        raise UsageError(f"{target} exists already: give another name, or remove it")
    if not (run / "config.json").is_file():
        raise UsageError(f"{run} is not a run: give a folder that `turnsmith run` has made")
    make_parent(target)
    [opened] = find_runs(run).values()
    made = write_site(opened, site) if site else write_report(opened, out, int(max_mb * MEGABYTE))
    size = sum(file.stat().st_size for file in ([target] if target.is_file() else target.rglob("*")))
    typer.echo(f"{target}: {size / MEGABYTE:.1f} MB, {made.num_kept:,} of {made.num_all:,} trajectories")
    if made.faults:
        typer.echo(
            f"warning: {len(made.faults)} damaged trajectories are left out; the first: {made.faults[0]}", err=True
        )


def make_parent(target: Path) -> None:
    """Make the folder of a file or folder that will be written. Raises UsageError if that is impossible."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {target} ({error.strerror}): give a name in another folder") from None
