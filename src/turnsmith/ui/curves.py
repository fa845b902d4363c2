"""Picture of a run's curves: resolved tasks, evaluations with standard errors, and metrics of the episodes."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from turnsmith.config import COLD_START, RFT
from turnsmith.io.files import replacing
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.reading import FinishedIteration, read_iterations, read_outline, read_results

INK, FAINT, BAND = "#333333", "#9a9a9a", "#f4f4f2"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Colours of the task sets, suitable for colour-blind readers (Okabe and Ito)."""
STYLE: Any = {
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "grid.color": "#e4e4e0",
    "grid.linewidth": 0.8,
    "svg.hashsalt": "turnsmith",
}
PANELS = {
    "turns per episode": "rollouts/turns_mean",
    "submitted": "rollouts/submit_rate",
    "suspicious patches": "contact/flagged_rate",
    "entropy of tokens (nats)": "loss/entropy",
    "engine–trainer gap": "logprob_gap/mean",
}
"""Title of each panel → metric that it shows."""
DRAWING = Lock()
SMALLEST_GAP = 1e-8
"""Log-prob gap (nats per token) below which the axis of the gap is linear instead of logarithmic, so that 0 can be drawn."""
Spans = Mapping[str, tuple[float, float]]
"""Stage → its start and end on the axis of iterations; the base model starts and ends at the same position."""
Iterations = Sequence[FinishedIteration]
Results = Sequence[dict[str, Any]]


def draw_curves(folder: RunFolder) -> Path:
    """Draw the finished iterations and evaluations of a run, and return the path of the picture."""
    with replacing(folder.curves) as temporary:
        save_curves(folder, temporary, format="png", dpi=160)
    return folder.curves


def render_curves(folder: RunFolder) -> bytes:
    """Render the picture as SVG; equal data give equal bytes."""
    picture = BytesIO()
    save_curves(folder, picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def save_curves(folder: RunFolder, file: Path | BytesIO, **settings: Any) -> None:
    """Draw the finished iterations and evaluations of a run into a file. The settings go to matplotlib's `savefig`."""
    stages, iterations = read_outline(folder).stage_names, read_iterations(folder)
    # matplotlib's settings are global, and a server draws in several threads.
    with DRAWING, rc_context(STYLE):
        compose(stages, iterations, read_results(folder)).savefig(file, facecolor="white", **settings)


def compose(stages: Sequence[str], iterations: Iterations, results: Results) -> Figure:
    """Compose the picture: resolved rates above, other metrics in a row of small panels below."""
    spans = lay_out(stages, iterations)
    panels = {title: metric for title, metric in PANELS.items() if any(metric in i.metrics for i in iterations)}
    figure = Figure(figsize=(11.5, 7.2 if panels else 4.8))
    # Fixed margins halve the time of drawing, which the pages of a running run repeat after each iteration.
    margins = {
        "left": 0.06,
        "right": 0.985,
        "bottom": 0.05 if panels else 0.11,
        "top": 0.9,
        "hspace": 0.38,
        "wspace": 0.4,
    }
    heights = [2.3, 1] if panels else None
    rows = figure.add_gridspec(2 if panels else 1, max(1, len(panels)), height_ratios=heights, **margins)
    draw_resolved(figure.add_subplot(rows[0, :]), spans, iterations, results)
    for column, (title, metric) in enumerate(panels.items()):
        draw_panel(figure.add_subplot(rows[1, column]), title, spans, iterations, metric)
    return figure


def lay_out(stages: Sequence[str], iterations: Iterations) -> Spans:
    """Lay out stages end to end by their numbers of iterations. RL begins at 0, an imitation before it at −1 or −2.

    Example: base, RFT and two stages of 5 iterations give (−1, −1), (−1, 0), (0, 5), (5, 10).
    """
    spans, end = {}, -1.0 * sum(name in stages for name in (COLD_START, RFT))
    for stage in stages:
        start, end = end, end + sum(iteration.stage == stage for iteration in iterations)
        spans[stage] = start, end
    return spans


def draw_resolved(axes: Axes, spans: Spans, iterations: Iterations, results: Results) -> None:
    """Draw the resolved rate of each iteration, and Pass@1 ± SEM of each evaluation at the end of its stage."""
    axes.set_title("Share of tasks resolved", fontsize=13, fontweight="bold", pad=24)
    draw_bands(axes, spans, named=True)
    draw_metric(axes, spans, iterations, "rollouts/resolved_rate", FAINT, "training tasks, while collecting")
    for position, name in enumerate(dict.fromkeys(result["task_set"] for result in results)):
        points = [result for result in results if result["task_set"] == name]
        draw_evaluations(axes, spans, points, COLOURS[position % len(COLOURS)])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("iterations of RL")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", frameon=False, labelcolor=INK, borderaxespad=0.8)


def find_end(spans: Spans, stage: str) -> float:
    """Return the end of a stage on the axis of iterations; `stage1@4` ends after 4 iterations of `stage1`."""
    name, _, iterations = stage.partition("@")
    start, end = spans[name]
    return start + int(iterations) if iterations else end


def draw_evaluations(axes: Axes, spans: Spans, points: Results, color: str) -> None:
    """Draw Pass@1 of one task set after each stage, with standard errors; the legend contains the last Pass@1."""
    axes.errorbar(
        [find_end(spans, point["stage"]) for point in points],
        [point["pass_at_1"] for point in points],
        yerr=[point["sem"] or 0.0 for point in points],
        label=f"{points[-1]['task_set']}: Pass@1 ± SEM, {points[-1]['pass_at_1']:.0%} at the end",
        color=color,
        marker="o",
        markersize=7,
        linewidth=2.2,
        capsize=3,
        zorder=4,
        clip_on=False,
    )


def draw_panel(axes: Axes, title: str, spans: Spans, iterations: Iterations, metric: str) -> None:
    axes.set_title(title, color=INK)
    draw_bands(axes, spans)
    draw_metric(axes, spans, iterations, metric, color=INK)
    if metric.endswith("_rate"):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(0, 1.03)
    if metric == "logprob_gap/mean":
        axes.set_yscale("symlog", linthresh=SMALLEST_GAP)
        axes.set_ylim(0, 1)


def draw_metric(
    axes: Axes, spans: Spans, iterations: Iterations, metric: str, color: str, label: str | None = None
) -> None:
    """Draw a metric as one line per stage, with a dot in the middle of each iteration; lines of stages are not joined."""
    for stage, (start, _) in spans.items():
        mine = [i for i in iterations if i.stage == stage and metric in i.metrics]
        if mine:
            x, y = [start + i.number + 0.5 for i in mine], [i.metrics[metric] for i in mine]
            axes.plot(x, y, color=color, marker="o", markersize=3.5, linewidth=1.4, label=label, zorder=3)
            label = None


def draw_bands(axes: Axes, spans: Spans, named: bool = False) -> None:
    """Draw a grey band behind every second stage, and with `named` the stages' names above the plot."""
    drawn = {stage: (start, end) for stage, (start, end) in spans.items() if end > start}
    for position, (stage, (start, end)) in enumerate(drawn.items()):
        if position % 2 == 0:
            axes.axvspan(start, end, color=BAND, zorder=0, linewidth=0)
        if named:
            axes.text((start + end) / 2, 1.02, stage, transform=axes.get_xaxis_transform(), ha="center", color=FAINT)
    axes.grid(axis="y", zorder=1)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    first, last = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
    margin = 0.02 * (last - first) + 0.1
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12 if named else 6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "base" if x < 0 else f"{x:.0f}"))
