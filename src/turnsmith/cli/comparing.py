"""The command `compare`: are two checkpoints different, or is it noise?"""

import json
from typing import Annotated

import typer

from turnsmith.cli.options import Json
from turnsmith.ui.terminal import make_console

ADDRESS = """A and B are RUN, RUN:STAGE or RUN:STAGE/TASK_SET: runs/a is the last checkpoint that was evaluated,
runs/a:base the policy that it began with, runs/a:stage1/practice one evaluation. Two evaluations are compared;
otherwise all task sets that A and B share."""
First = Annotated[str, typer.Argument(metavar="A", help="RUN, RUN:STAGE or RUN:STAGE/TASK_SET.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The same; a gain is what B has more than A.")]


def compare(first: First, second: Second, as_json: Json = False) -> None:
    """Two runs, stages or evaluations, paired by task: different, or noise?"""
    # scipy takes a second, which --help need not wait for
    from turnsmith.ui.comparison import compare as compare_all
    from turnsmith.ui.comparison_table import comparison_table

    comparisons = compare_all(first, second)
    if as_json:
        typer.echo(json.dumps([comparison.to_json() for comparison in comparisons], indent=2))
        return
    console = make_console()
    for position, comparison in enumerate(comparisons):
        console.print(*["" for _ in range(bool(position))], comparison_table(comparison), sep="\n")
