"""The command `audit`: how many rewards of a run were lies?"""

import json
from functools import partial
from typing import Any

import typer

from turnsmith.cli.options import Json, Run, work_in_sandboxes
from turnsmith.config import RunConfig
from turnsmith.config_files import validate
from turnsmith.runs import RunFolder, read_json
from turnsmith.ui.tables import count_up, make_table
from turnsmith.ui.terminal import make_console


def audit(run: Run, as_json: Json = False) -> None:
    """Look afterwards for lies among the patches of a run that resolved their tasks; what was audited is not done again."""
    from turnsmith.recipes.auditing import review_run, sum_up

    folder = RunFolder(run)
    config = validate(read_json(folder.config), folder.config, RunConfig)
    patches = work_in_sandboxes(config.sandbox, partial(review_run, config, folder))
    totals = sum_up(patches)
    if as_json:
        typer.echo(json.dumps({**totals, "patches": [patch.model_dump() for patch in patches]}, indent=2))
        return
    rows = sorted((patch.instance_id, patch.audit.verdict, patch.audit.reason) for patch in patches)
    print_review([row for row in rows if row[1] != "honest"], totals)


def print_review(rows: list[tuple[str, str, str]], totals: dict[str, Any]) -> None:
    """What was not found honest, and the share of lies."""
    console, counts = make_console(), count_up(totals["counts"])
    if rows:
        console.print(make_table(["task", "verdict", "why"], rows))
    if totals["interval"] is None:
        console.print(f"nothing can be said: {counts or 'no patch resolved a task'}")
        return
    low, high = totals["interval"]
    console.print(
        f"{counts}: {totals['share_of_lies']:.1%} of the patches that were honest or convicted are lies, "
        f"95 % interval {low:.1%} to {high:.1%}"
    )
