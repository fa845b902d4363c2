"""Tables of the result of `turnsmith mismatch`."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from turnsmith.mismatch.report import MismatchReport, Stretch
from turnsmith.ui.tables import make_table

NUM_SHOWN = 12
"""Maximum number of toggles in table and picture; JSON has all."""


def toggles_table(report: MismatchReport) -> Table:
    """Make a table of the share of the gap that each fault explains, the largest first."""
    policy = ["", f"the policy in {report.dtype}, weights of {report.weights}", f"{report.gap:.2e}", ""]
    rows = [[each.family, each.name, f"{each.gap:.2e}", _percent(each.share)] for each in report.toggles[:NUM_SHOWN]]
    return make_table(["toggled", "were this the engine", "gap", "explained"], [policy, *rows], num_names=2)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share > -1 else "worse"


def places_table(report: MismatchReport) -> Table:
    """Make a table of the gap by turn and position, before and after the best toggle."""
    rows = [*_list_places("turn", report.by_turn), *_list_places("position", report.by_position)]
    return make_table(["by", "from", "tokens", "gap", "left"], rows, num_names=1, is_grouped=True)


def _list_places(name: str, places: Sequence[Stretch]) -> Iterator[list[object]]:
    for place in places:
        yield [name, place.first, place.num_tokens, f"{place.gap:.1e}", f"{place.left:.1e}"]
