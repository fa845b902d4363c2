"""The command `audit`: how many rewards of a run were lies?"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.sandboxed import work_in_sandboxes
from turnsmith.config import RunConfig
from turnsmith.config_files import validate
from turnsmith.runs import RunFolder, read_json
from turnsmith.ui.tables import words_table
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.recipes.auditing import Review


def audit(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")], as_json: Json = False) -> None:
    """Look afterwards for lies among the patches of a run that resolved their tasks; what was audited is not done again."""
    from turnsmith.recipes.auditing import review_run

    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
    review = work_in_sandboxes(config.sandbox, partial(review_run, config, folder))
    if as_json:
        typer.echo(json.dumps(review.to_json(), indent=2))
    else:
        print_review(review)


def print_review(review: "Review") -> None:
    """What was not found honest, convictions first, and the share of lies."""
    console, counts = make_console(), review.describe_counts()
    patches = [patch for patch in review.patches if patch.audit.verdict != "honest"]
    if rows := sorted((patch.instance_id, patch.audit.verdict, patch.audit.reason) for patch in patches):
        console.print(words_table(["task", "verdict", "why"], [tuple(map(to_line, row)) for row in rows]))
    if review.interval is None:
        console.print(f"nothing can be said: {counts or 'no patch resolved a task'}")
        return
    low, high = review.interval
    console.print(
        f"{counts}: {review.share:.1%} of the {review.num_conclusive} patches that were honest or "
        f"convicted are lies, 95 % interval {low:.1%} to {high:.1%}"
    )
