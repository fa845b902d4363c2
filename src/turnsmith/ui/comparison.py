"""Comparison of two evaluations on the same tasks, with a significance test of the difference."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.table import Table

from turnsmith.errors import UsageError
from turnsmith.recipes.results import read_evaluation
from turnsmith.recipes.stats import LEVEL, POWER, PairedRates
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.reading import list_evaluations, read_tasks
from turnsmith.ui.terminal import to_line

ID_END = re.compile(r"\.[^.]+\.[0-9a-f]{8}$|-\d+$")
"""Pattern of the end of a task id; the rest names the repository: `toolz-1.0.0.swap.1f3a9c04`, `django__django-11099`."""
MAX_NAMED = 20
"""Maximum number of tasks listed by name; the others are counted."""
UNITS = {"repository": "repositories", "task": "tasks"}
HOLDS_FOR = {"repository": "repositories such as these", "task": "these tasks"}
"""Unit that the permutation test flips → tasks or repositories for which its result holds, as a phrase of the verdict."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of one checkpoint on one task set."""

    name: str
    """Address of the evaluation: `RUN:STAGE/TASK_SET`."""
    rates: Mapping[str, float]
    """Share of resolved attempts per task; tasks whose attempts were all lost are absent."""
    num_lost: int
    """Number of rollouts lost to the infrastructure."""
    lost: Mapping[str, int]
    """Number of lost rollouts by task; empty in results of older versions."""
    repositories: Mapping[str, str]
    """Task id → repository: from the task file or, if that is missing, from the beginning of the id."""


@dataclass(frozen=True)
class Comparison:
    """Two evaluations A (`before`) and B (`after`), compared task by task."""

    before: Evaluation
    after: Evaluation

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks that both evaluations attempted."""
        return sorted(self.before.rates.keys() & self.after.rates.keys())

    @cached_property
    def pairs(self) -> PairedRates:
        """Rates of both evaluations on the tasks that both attempted."""
        before, after = ([side.rates[task] for task in self.tasks] for side in (self.before, self.after))
        return PairedRates(before, after, [self.before.repositories[task] for task in self.tasks])

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
        return "different" if self.pairs.is_different else "noise"

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


def compare(first: str, second: str) -> Sequence[Comparison]:
    """Compare the evaluations at `RUN[:STAGE[/TASK_SET]]` on every common task set. Raises UsageError if no task is shared."""
    before, after = find_evaluations(first), find_evaluations(second)
    pairs = [(before[name], after[name]) for name in before if name in after]
    if len(before) == len(after) == 1:
        pairs = [*zip(before.values(), after.values(), strict=True)]
    comparisons = [comparison for pair in pairs if (comparison := Comparison(*pair)).tasks]
    if not comparisons:
        raise UsageError(
            f"{first} ({', '.join(before)}) and {second} ({', '.join(after)}) have no task in common: "
            "compare evaluations of the same tasks"
        )
    return comparisons


def find_evaluations(address: str) -> dict[str, Evaluation]:
    """Load the evaluations at `RUN[:STAGE[/TASK_SET]]` by task set. RUN alone means its last stage. Raises UsageError."""
    run, stage, task_set = split_address(address)
    folder = RunFolder(Path(run))
    finished = list_evaluations(folder)
    if not finished:
        raise UsageError(f"{run} has no finished evaluation: compare another run")
    stage = stage or finished[-1][0]
    found = [name for evaluated, name in finished if evaluated == stage and task_set in ("", name)]
    if not found:
        known = ", ".join(f"{evaluated}/{name}" for evaluated, name in finished)
        raise UsageError(f"{run} has no finished evaluation {stage}/{task_set or '…'}: it has {known}")
    return {name: load_evaluation(folder, stage, name) for name in found}


def split_address(address: str) -> tuple[str, str, str]:
    """Split `runs/a:stage1/practice` into run, stage and task set; a part that is left out is empty."""
    if ":" not in address or Path(address).exists():
        return address, "", ""
    run, _, place = address.rpartition(":")
    stage, _, task_set = place.partition("/")
    return run, stage, task_set


def load_evaluation(folder: RunFolder, stage: str, task_set: str) -> Evaluation:
    """Load a finished evaluation. Raises UsageError if its file is damaged."""
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
    if pairs.detectable:
        yield "detects", describe_power(pairs)
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


def describe_power(pairs: PairedRates) -> str:
    """Describe the difference that this comparison can detect, and the size of one that could detect the measured difference."""
    reach = f"true differences of {100 * (pairs.detectable or 0):.1f} points, with probability {POWER:.0%}"
    if pairs.is_different or pairs.num_needed is None:
        return reach
    return f"{reach}; {100 * abs(pairs.mean):.1f} points need about {pairs.num_needed:,} {UNITS[pairs.flipped_by]}"


def describe_verdict(comparison: Comparison) -> str:
    """Describe in one sentence whether the difference is significant."""
    pairs = comparison.pairs
    only = " of these tasks" if pairs.flipped_by == "task" else ""
    if not pairs.is_different:
        return (
            f"without any real difference, chance alone gives one as large in {pairs.p_value:.0%} of comparisons{only}"
        )
    better = "B" if pairs.mean > 0 else "A"
    return f"{better} resolves more{only}: chance alone gives such a difference in less than {LEVEL:.0%} of comparisons"


def name_some(tasks: Sequence[str]) -> str:
    """Format the number and names of tasks: `3: a, b, c`."""
    more = f" and {len(tasks) - MAX_NAMED} more" if len(tasks) > MAX_NAMED else ""
    return f"{len(tasks)}: {', '.join(tasks[:MAX_NAMED])}{more}" if tasks else "none"
