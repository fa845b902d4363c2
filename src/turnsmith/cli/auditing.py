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
        typer.echo(json.dumps(to_json(review), indent=2))
    else:
        print_review(review)


def to_json(review: "Review") -> dict[str, object]:
    """Counts, the share of lies, and every audit."""
    return {
        "counts": review.counts,
        "share_of_lies": review.share,
        "interval": review.interval,
        "patches": [patch.model_dump() for patch in review.patches],
    }


def print_review(review: "Review") -> None:
    """What was not found honest, and the share of lies."""
    from turnsmith.recipes.auditing import describe_counts, list_reasons

    console = make_console()
    if odd := list_reasons(review.patches):
        console.print(words_table(["task", "verdict", "why"], [tuple(map(to_line, row)) for row in odd]))
    if review.share is None or review.interval is None:
        console.print(f"nothing can be said: {describe_counts(review.counts) or 'no patch resolved a task'}")
        return
    low, high = review.interval
    console.print(
        f"{describe_counts(review.counts)}: {review.share:.1%} of the {review.num_conclusive} patches that were honest or "
        f"convicted are lies, 95 % interval {low:.1%} to {high:.1%}"
    )
