"""Picture of the result of `turnsmith mismatch`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from turnsmith.mismatch.report import MismatchReport, Stretch, Toggle
from turnsmith.runs.folder import replacing
from turnsmith.ui.curves import COLOURS, FAINT, INK, STYLE
from turnsmith.ui.mismatch import NUM_SHOWN

SMALLEST = 1e-8
"""Lower bound of the drawn gaps."""


def draw_mismatch(report: MismatchReport, file: Path) -> None:
    """Draw the shares of the toggles above, and the gap by turn and position below."""
    with rc_context(STYLE), replacing(file) as temporary:
        compose(report).savefig(temporary, format="png", dpi=130, facecolor="white")


def compose(report: MismatchReport) -> Figure:
    """Compose the picture."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    # Long names of faults must not shift the panels below, so these are separate subfigures.
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.2, 1])
    above, below = parts
    draw_toggles(above.subplots(), report.toggles[:NUM_SHOWN])
    by_turn, by_position = below.subplots(1, 2)
    draw_places(by_turn, report.by_turn, "turn", report.rounding)
    draw_places(by_position, report.by_position, "absolute position", report.rounding)
    title = f"{report.stage}/{report.iteration}: {report.num_tokens} tokens, mean gap {report.gap:.2g} nats"
    figure.suptitle(title, x=0.01, ha="left", color=INK)
    return figure


def draw_toggles(axes: Axes, toggles: Sequence[Toggle]) -> None:
    """Draw a bar for each fault: the share of the gap that it explains."""
    axes.set_title("share of the gap that each fault explains")
    names, shares = [toggle.name for toggle in toggles], [max(0.0, toggle.share) for toggle in toggles]
    axes.barh(names[::-1], shares[::-1], color=[FAINT] * (len(names) - 1) + [COLOURS[1]])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def draw_places(axes: Axes, places: Sequence[Stretch], title: str, rounding: float) -> None:
    """Draw the mean gap by place, before and after the best toggle, on a logarithmic axis."""
    axes.set_title(f"mean gap by {title} (nats per token)")
    firsts = [place.first for place in places]
    for gaps, label, color in (
        ([place.gap for place in places], "the policy", COLOURS[0]),
        ([place.left for place in places], "left by the best toggle", COLOURS[1]),
    ):
        axes.plot(firsts, [max(SMALLEST, gap) for gap in gaps], marker="o", color=color, label=label)
    axes.axhline(rounding, color=FAINT, linestyle="--", linewidth=0.8, label="rounding")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best", frameon=False, labelcolor=INK)
