"""Comparison of two evaluations on the same tasks, with a significance test of the difference."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from rich.table import Table

from turnsmith.errors import UsageError
from turnsmith.recipes.choices import ChosenRates
from turnsmith.recipes.stats import LEVEL, POWER, PairedRates
from turnsmith.ui.evaluations import UNNAMED, Evaluation, Side, find_shared, find_sides
from turnsmith.ui.terminal import to_line

MAX_NAMED = 20
"""Maximum number of tasks listed by name; the others are counted."""
UNITS = {"repository": "repositories", "task": "tasks"}
HOLDS_FOR = {"repository": "repositories such as these", "task": "these tasks"}
"""Unit that the permutation test flips → tasks or repositories for which its result holds, as a phrase of the verdict."""


@dataclass(frozen=True)
class Comparison:
    """Two evaluations A (`before`) and B (`after`), compared task by task."""

    before: Evaluation
    after: Evaluation
    rivals_before: Sequence[Evaluation] = ()
    """Evaluations among which A was chosen as the best, with A; at most one if it was not chosen."""
    rivals_after: Sequence[Evaluation] = ()
    """Evaluations among which B was chosen as the best, with B; at most one if it was not chosen."""

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks that both evaluations attempted."""
        return sorted(self.before.rates.keys() & self.after.rates.keys())

    @cached_property
    def pairs(self) -> PairedRates:
        """Rates of both evaluations on the tasks that both attempted."""
        before, after = ([side.rates[task] for task in self.tasks] for side in (self.before, self.after))
        return PairedRates(before, after, [self.before.repositories[task] for task in self.tasks])

    @cached_property
    def choice(self) -> ChosenRates | None:
        """Rates of all evaluations among which A or B was chosen, on the tasks that all attempted; None without a choice."""
        sides = self.rivals_before or [self.before], self.rivals_after or [self.after]
        tasks = find_shared(chain(*sides))
        if max(map(len, sides)) < 2 or not tasks:
            return None
        before, after = ([[each.rates[task] for task in tasks] for each in side] for side in sides)
        return ChosenRates(before, after, [self.before.repositories[task] for task in tasks])

    @cached_property
    def p_value(self) -> float:
        """P-value of the difference, adjusted for the choice of the best if there was one, and never below the plain one."""
        if not self.choice:
            return self.pairs.p_value
        sides = (self.rivals_before, self.before), (self.rivals_after, self.after)
        positions = ([each.name for each in rivals].index(one.name) for rivals, one in sides)
        return max(self.pairs.p_value, self.choice.find_p_value(*positions))

    @property
    def is_different(self) -> bool:
        return self.p_value <= LEVEL

    @property
    def gained(self) -> list[str]:
        """Tasks that the second evaluation resolves more often."""
        return [task for task in self.tasks if self.after.rates[task] > self.before.rates[task]]

    @property
    def lost(self) -> list[str]:
        """Tasks that the second evaluation resolves less often."""
        return [task for task in self.tasks if self.after.rates[task] < self.before.rates[task]]

    @property
    def left_out(self) -> dict[str, list[str]]:
        """Reason, e.g. all rollouts lost in B → tasks that for this reason only one of the two evaluations attempted."""
        reasons = {}
        for side, other in ((self.before, self.after), (self.after, self.before)):
            reasons[f"every rollout lost to the infrastructure in {side.name}"] = side.lost.keys() - side.rates.keys()
            reasons[f"not in {side.name}"] = other.rates.keys() - side.rates.keys() - side.lost.keys()
        return {reason: sorted(tasks) for reason, tasks in reasons.items() if tasks}

    @property
    def verdict(self) -> str:
        """Return `different` if the difference is significant, else `noise`."""
        return "different" if self.is_different else "noise"

    def to_json(self) -> dict[str, Any]:
        pairs, rates = self.pairs, (self.before.rates, self.after.rates)
        return {
            "a": self.before.name,
            "b": self.after.name,
            "verdict": self.verdict,
            "pass_at_1": pairs.means,
            "difference": pairs.mean,
            "interval_95": pairs.interval,
            "p_value": pairs.p_value,
            "p_value_mcnemar": pairs.p_value_mcnemar,
            **self._describe_choice(),
            "detectable_difference": pairs.detectable,
            f"num_{UNITS[pairs.flipped_by]}_needed": pairs.num_needed,
            "flipped_by": pairs.flipped_by,
            "holds_for": HOLDS_FOR[pairs.flipped_by],
            "num_tasks": len(self.tasks),
            "num_repositories": len(set(pairs.clusters)),
            "gained": {task: [rate[task] for rate in rates] for task in self.gained},
            "lost": {task: [rate[task] for rate in rates] for task in self.lost},
            "left_out": self.left_out,
            "num_rollouts_lost": [self.before.num_lost, self.after.num_lost],
        }

    def _describe_choice(self) -> dict[str, Any]:
        if not self.choice:
            return {}
        return {
            "a_chosen_among": [each.name for each in self.rivals_before],
            "b_chosen_among": [each.name for each in self.rivals_after],
            "p_value_corrected": self.p_value,
            "difference_corrected": self.choice.gain,
        }


def compare(first: str, second: str, best_of: Sequence[str] = ()) -> Sequence[Comparison]:
    """Compare the evaluations at two addresses on every common task set. Raises UsageError if no task is shared.

    `best_of` names the stages among which the second evaluation was chosen as the best.
    """
    before, after = find_sides(first), find_sides(second, best_of)
    pairs = [
        (a, b) for name, a in before.items() for other, b in after.items() if name == other or UNNAMED in (name, other)
    ]
    if len(before) == len(after) == 1:
        pairs = [*zip(before.values(), after.values(), strict=True)]
    comparisons = [comparison for pair in pairs if (comparison := pair_up(*pair)).tasks]
    if not comparisons:
        raise UsageError(
            f"{describe_side(first, before)} and {describe_side(second, after)} have no task in common: "
            "compare evaluations of the same tasks"
        )
    return comparisons


def describe_side(address: str, sides: Collection[str]) -> str:
    """Describe an address with its task sets, if these have names."""
    return f"{address} ({names})" if (names := ", ".join(filter(None, sides))) else address


def pair_up(first: Side, second: Side) -> Comparison:
    """Choose the evaluation of each side, and pair them."""
    before, after = first.without(second), second.without(first)
    return Comparison(before.find_best(), after.find_best(), before.evaluations, after.evaluations)


def comparison_table(comparison: Comparison) -> Table:
    """Make a table of the rates, the difference, its p-value, the changed tasks and the verdict."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in describe(comparison):
        table.add_row(name, to_line(text))
    table.add_row(comparison.verdict, to_line(describe_verdict(comparison)), style="bold")
    return table


def describe(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each row of the table above the verdict."""
    pairs, sides = comparison.pairs, (comparison.before, comparison.after)
    for letter, side, rate in zip("AB", sides, pairs.means, strict=True):
        yield letter, f"{side.name}  {rate:.1%}"
    interval = "no interval, since the change is equal on all tasks"
    if pairs.interval:
        ends = (100 * end for end in pairs.interval)
        interval = "95 % interval of {}: {:+.1f} to {:+.1f}".format(HOLDS_FOR[pairs.flipped_by], *ends)
    yield "B − A", f"{100 * pairs.mean:+.1f} points, {interval}"
    yield "p", describe_p(pairs)
    if comparison.choice:
        yield "corrected", describe_choice(comparison, comparison.choice)
    if pairs.detectable:
        yield "detects", describe_power(pairs, is_different=comparison.is_different)
    yield "tasks", f"{len(comparison.tasks)} in both; repositories: {len(set(pairs.clusters))}"
    for reason, tasks in comparison.left_out.items():
        yield "left out", f"{reason}: {name_some(tasks)}"
    for side in sides:
        if side.num_lost:
            yield "rollouts", f"{side.num_lost} of {side.name} lost to the infrastructure"
    yield "gained", name_some(comparison.gained)
    yield "lost", name_some(comparison.lost)


def describe_p(pairs: PairedRates) -> str:
    """Describe the p-values, and whether the permutation test treats tasks or repositories as independent."""
    flipped = "by repository" if pairs.flipped_by == "repository" else "by task, as the repositories are too few"
    mcnemar = "" if pairs.p_value_mcnemar is None else f"; {pairs.p_value_mcnemar:.2g} by exact McNemar"
    return f"{pairs.p_value:.2g} by sign-flip {flipped}{mcnemar}"


def describe_choice(comparison: Comparison, choice: ChosenRates) -> str:
    """Describe the p-value and the difference after the correction for the choice of the best."""
    sides = {"A": comparison.rivals_before, "B": comparison.rivals_after}
    chosen = " and ".join(f"{letter} is the best of {len(side)}" for letter, side in sides.items() if len(side) > 1)
    gain = "" if choice.gain is None else f", and {100 * choice.gain:+.1f} points on tasks outside the choice"
    return f"{chosen}; with this taken into account, p is {comparison.p_value:.2g}{gain}"


def describe_power(pairs: PairedRates, *, is_different: bool) -> str:
    """Describe the difference that this comparison can detect, and the size of one that could detect the measured difference."""
    reach = f"true differences of {100 * (pairs.detectable or 0):.1f} points, with probability {POWER:.0%}"
    if is_different or pairs.num_needed is None:
        return reach
    return f"{reach}; {100 * abs(pairs.mean):.1f} points need about {pairs.num_needed:,} {UNITS[pairs.flipped_by]}"


def describe_verdict(comparison: Comparison) -> str:
    """Describe in one sentence whether the difference is significant."""
    if comparison.before.name == comparison.after.name:
        return "A and B are the same evaluation: name two, or wait until the run has another one"
    pairs = comparison.pairs
    only = " of these tasks" if pairs.flipped_by == "task" else ""
    if not comparison.is_different:
        share = f"{comparison.p_value:.0%} of comparisons{only}"
        return f"without any real difference, chance alone gives one as large in {share}"
    better = "B" if pairs.mean > 0 else "A"
    return f"{better} resolves more{only}: chance alone gives such a difference in less than {LEVEL:.0%} of comparisons"


def name_some(tasks: Sequence[str]) -> str:
    """Format the number and names of tasks: `3: a, b, c`."""
    more = f" and {len(tasks) - MAX_NAMED} more" if len(tasks) > MAX_NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:MAX_NAMED])}{more}" if tasks else "none"
