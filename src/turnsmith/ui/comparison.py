"""Two evaluations side by side, paired by task: what differs, and whether it is more than noise."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.table import Table

from turnsmith.errors import UsageError
from turnsmith.recipes.results import read_evaluation
from turnsmith.recipes.stats import LEVEL, PairedRates
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.reading import list_evaluations, read_tasks
from turnsmith.ui.terminal import to_line

ID_END = re.compile(r"\.[^.]+\.[0-9a-f]{8}$|-\d+$")
"""What an id adds to the name of its repository: `toolz-1.0.0.swap.1f3a9c04`, `django__django-11099`."""
MAX_NAMED = 20
"""Tasks listed by name; the others are counted."""
HOLDS_FOR = {"repository": "repositories such as these", "task": "these tasks"}
"""Whom test and interval speak of, by what is flipped: a few repositories say nothing of others."""


@dataclass(frozen=True)
class Evaluation:
    """What one checkpoint reached on one task set."""

    name: str
    """How it is addressed: `RUN:STAGE/TASK_SET`."""
    rates: Mapping[str, float]
    """Share of attempts that resolved each task; tasks without an attempt that counts are not in it."""
    num_lost: int
    """Rollouts that the infrastructure lost."""
    lost: Mapping[str, int]
    """The same by task; results of older versions do not have it."""
    repositories: Mapping[str, str]
    """Repository of each task: that of the task file, or where that cannot be read any more, what the id begins with."""


@dataclass(frozen=True)
class Comparison:
    """Two evaluations, paired by task."""

    before: Evaluation
    after: Evaluation

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks that both attempted."""
        return sorted(self.before.rates.keys() & self.after.rates.keys())

    @cached_property
    def pairs(self) -> PairedRates:
        """The rates of those tasks."""
        before, after = ([side.rates[task] for task in self.tasks] for side in (self.before, self.after))
        return PairedRates(before, after, [self.before.repositories[task] for task in self.tasks])

    @property
    def gained(self) -> list[str]:
        """Tasks that the second resolves more often."""
        return [task for task in self.tasks if self.after.rates[task] > self.before.rates[task]]

    @property
    def lost(self) -> list[str]:
        """Tasks that the second resolves less often."""
        return [task for task in self.tasks if self.after.rates[task] < self.before.rates[task]]

    @property
    def left_out(self) -> dict[str, list[str]]:
        """Tasks without a partner, by the reason."""
        reasons = {}
        for side, other in ((self.before, self.after), (self.after, self.before)):
            reasons[f"every rollout lost to the infrastructure in {side.name}"] = side.lost.keys() - side.rates.keys()
            reasons[f"not in {side.name}"] = other.rates.keys() - side.rates.keys() - side.lost.keys()
        return {reason: sorted(tasks) for reason, tasks in reasons.items() if tasks}

    @property
    def verdict(self) -> str:
        """In one word."""
        return "different" if self.pairs.is_different else "noise"

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
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
            "flipped_by": pairs.flipped_by,
            "holds_for": HOLDS_FOR[pairs.flipped_by],
            "num_tasks": len(self.tasks),
            "num_repositories": len(set(pairs.clusters)),
            "gained": {task: [rate[task] for rate in rates] for task in self.gained},
            "lost": {task: [rate[task] for rate in rates] for task in self.lost},
            "left_out": self.left_out,
            "num_rollouts_lost": [self.before.num_lost, self.after.num_lost],
        }


def compare(first: str, second: str) -> Sequence[Comparison]:
    """One comparison for each task set that two addresses have in common. Raises UsageError where there is none."""
    before, after = find_evaluations(first), find_evaluations(second)
    pairs = [(before[name], after[name]) for name in before if name in after]
    if len(before) == len(after) == 1:
        pairs = [*zip(before.values(), after.values(), strict=True)]
    comparisons = [comparison for pair in pairs if (comparison := Comparison(*pair)).tasks]
    if not comparisons:
        raise UsageError(
            f"{first} and {second} have no task in common, on {', '.join(before)} and on {', '.join(after)}: take the same tasks"
        )
    return comparisons


def find_evaluations(address: str) -> dict[str, Evaluation]:
    """The evaluations at `RUN[:STAGE[/TASK_SET]]` by task set; a run alone is its last stage. Raises UsageError."""
    run, stage, task_set = split_address(address)
    folder = RunFolder(Path(run))
    finished = list_evaluations(folder)
    if not finished:
        raise UsageError(f"{run} has no finished evaluation: compare runs that have one")
    stage = stage or finished[-1][0]
    found = [name for evaluated, name in finished if evaluated == stage and task_set in ("", name)]
    if not found:
        known = ", ".join(f"{evaluated}/{name}" for evaluated, name in finished)
        raise UsageError(f"{run} has no finished evaluation {stage}/{task_set or '…'}: it has {known}")
    return {name: load_evaluation(folder, stage, name) for name in found}


def split_address(address: str) -> tuple[str, str, str]:
    """`runs/a:stage1/practice` → run, stage, task set, empty where left out. A folder's own name may have a colon."""
    if ":" not in address or Path(address).exists():
        return address, "", ""
    run, _, place = address.rpartition(":")
    stage, _, task_set = place.partition("/")
    return run, stage, task_set


def load_evaluation(folder: RunFolder, stage: str, task_set: str) -> Evaluation:
    """What a finished evaluation left. Raises UsageError where it is damaged."""
    result, tasks = read_evaluation(folder, stage, task_set), read_tasks(folder, task_set)
    guessed = {task: ID_END.sub("", task) for task in result["per_task"]}
    return Evaluation(
        name=f"{folder.path}:{stage}/{task_set}",
        rates=result["per_task"],
        num_lost=result.get("num_lost") or 0,
        lost=result.get("lost_per_task") or {},
        repositories=guessed | {task.instance_id: task.repo for task in tasks if task.repo},
    )


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
    interval = "no interval, since every task changed by the same"
    if pairs.interval:
        ends = (100 * end for end in pairs.interval)
        interval = "95 % interval of {}: {:+.1f} to {:+.1f}".format(HOLDS_FOR[pairs.flipped_by], *ends)
    yield "B − A", f"{100 * pairs.mean:+.1f} points, {interval}"
    yield "p", describe_p(pairs)
    yield "tasks", f"{len(comparison.tasks)} in both; repositories: {len(set(pairs.clusters))}"
    for reason, tasks in comparison.left_out.items():
        yield "left out", f"{reason}: {name_some(tasks)}"
    for side in sides:
        if side.num_lost:
            yield "rollouts", f"{side.num_lost} of {side.name} lost to the infrastructure"
    yield "gained", name_some(comparison.gained)
    yield "lost", name_some(comparison.lost)


def describe_p(pairs: PairedRates) -> str:
    """The p-value of each test, and what it takes for a witness."""
    flipped = "by repository" if pairs.flipped_by == "repository" else "by task, as the repositories are too few"
    mcnemar = "" if pairs.p_value_mcnemar is None else f"; {pairs.p_value_mcnemar:.2g} by exact McNemar"
    return f"{pairs.p_value:.2g} by sign-flip {flipped}{mcnemar}"


def in_words(comparison: Comparison) -> str:
    """What the numbers say."""
    pairs = comparison.pairs
    only = " of these tasks" if pairs.flipped_by == "task" else ""
    if not pairs.is_different:
        return f"chance makes as large a difference between equals in {pairs.p_value:.0%} of comparisons{only}"
    better = "B" if pairs.mean > 0 else "A"
    return f"{better} resolves more{only}: chance makes as large a difference in less than {LEVEL:.0%} of comparisons"


def name_some(tasks: Sequence[str]) -> str:
    """How many, and the first by name: `3: a, b, c`."""
    more = f" and {len(tasks) - MAX_NAMED} more" if len(tasks) > MAX_NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:MAX_NAMED])}{more}" if tasks else "none"
