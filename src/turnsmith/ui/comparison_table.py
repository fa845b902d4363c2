"""A comparison as a table, and what it means in words."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from turnsmith.stats import LEVEL, PairedRates
from turnsmith.ui.comparison import Comparison
from turnsmith.ui.terminal import to_line

MAX_NAMED = 20
"""Tasks listed by name; the others are counted."""


def comparison_table(comparison: Comparison) -> Table:
    """What was compared, the difference, what chance could do, the tasks that changed, the verdict."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in describe(comparison):
        table.add_row(name, to_line(text))
    table.add_row(comparison.verdict, to_line(in_words(comparison)), style="bold")
    return table


def describe(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Heading and text of each line but the verdict."""
    pairs, sides = comparison.pairs, (comparison.before, comparison.after)
    for letter, side, rate in zip("AB", sides, pairs.means, strict=True):
        yield letter, f"{side.name}  {rate:.1%}"
    yield "B − A", f"{100 * pairs.mean:+.1f} points, {describe_interval(pairs)}"
    yield "p", describe_p(pairs)
    num = len(set(pairs.clusters))
    yield "tasks", f"{len(comparison.tasks)} in both, of {num} {'repository' if num == 1 else 'repositories'}"
    for reason, tasks in comparison.left_out.items():
        yield "left out", f"{reason}: {name_some(tasks)}"
    for side in sides:
        if side.num_lost:
            yield "rollouts", f"{side.num_lost} of {side.name} lost to the infrastructure"
    yield "gained", name_some(comparison.gained)
    yield "lost", name_some(comparison.lost)


def describe_interval(pairs: PairedRates) -> str:
    """`95 % interval +1.2 to +7.0`, where there is one."""
    if pairs.interval is None:
        return "no interval, since every task changed by the same"
    low, high = pairs.interval
    return f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"


def describe_p(pairs: PairedRates) -> str:
    """The p-value of each test, and what it takes for a witness."""
    flipped = "by repository" if pairs.flipped_by == "repository" else "by task, as the repositories are too few"
    mcnemar = "" if pairs.p_value_mcnemar is None else f"; {pairs.p_value_mcnemar:.2g} by exact McNemar"
    return f"{pairs.p_value:.2g} by sign-flip {flipped}{mcnemar}"


def in_words(comparison: Comparison) -> str:
    """What the numbers say."""
    pairs = comparison.pairs
    if not pairs.is_different:
        return f"chance makes as large a difference between equals in {pairs.p_value:.0%} of comparisons"
    better = "B" if pairs.mean > 0 else "A"
    only = ", on these repositories" if pairs.flipped_by == "task" else ""
    return f"{better} resolves more{only}: chance makes as large a difference in less than {LEVEL:.0%} of comparisons"


def name_some(tasks: Sequence[str]) -> str:
    """How many, and the first by name: `3: a, b, c`."""
    more = f" and {len(tasks) - MAX_NAMED} more" if len(tasks) > MAX_NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:MAX_NAMED])}{more}" if tasks else "none"
