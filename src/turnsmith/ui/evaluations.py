"""Evaluations that can be compared, and the addresses by which users name them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.recipes.results import read_evaluation
from turnsmith.runs.folder import RunFolder
from turnsmith.ui.reading import list_evaluations, read_tasks
from turnsmith.ui.report_files import ReportFile, find_report

ID_END = re.compile(r"\.[^.]+\.[0-9a-f]{8}$|-\d+$")
"""Pattern of the end of a task id; the rest names the repository: `toolz-1.0.0.swap.1f3a9c04`, `django__django-11099`."""
BEST = "best"
"""Stage of an address that means the stage with the highest Pass@1."""

UNNAMED = ""
"""Task set of a report, which does not name one."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of one checkpoint on one task set."""

    name: str
    """Address of the evaluation: `RUN:STAGE/TASK_SET`, or the file of a report."""
    rates: Mapping[str, float]
    """Share of resolved attempts per task; tasks whose attempts were all lost are absent."""
    num_lost: int
    """Number of rollouts lost to the infrastructure."""
    lost: Mapping[str, int]
    """Number of lost rollouts by task; empty in results of older versions."""
    repositories: Mapping[str, str]
    """Task id → repository: from the task file or, if that is missing, from the beginning of the id."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: an evaluation, or several among which the best was or will be chosen."""

    evaluations: Sequence[Evaluation]
    chosen: Evaluation | None
    """Evaluation to compare; None chooses the best one."""

    def without(self, other: "Side") -> "Side":
        """Leave out the evaluation of the other side from those to choose among, if that side has only one."""
        if self.chosen or len(other.evaluations) > 1:
            return self
        [reference] = other.evaluations
        rest = [each for each in self.evaluations if each.name != reference.name]
        return replace(self, evaluations=rest or self.evaluations)

    def find_best(self) -> Evaluation:
        """Return the chosen evaluation, or the first of those with the highest mean rate on the tasks that all attempted.

        Raises UsageError if no task was attempted by all.
        """
        if self.chosen:
            return self.chosen
        shared = find_shared(self.evaluations)
        if not shared:
            names = ", ".join(each.name for each in self.evaluations)
            raise UsageError(f"{names} have no task in common: choose the best of evaluations of the same tasks")
        return max(self.evaluations, key=lambda each: sum(each.rates[task] for task in shared))


def find_shared(evaluations: Iterable[Evaluation]) -> list[str]:
    """Find the tasks that all evaluations attempted."""
    return sorted(set.intersection(*(set(each.rates) for each in evaluations)))


def find_sides(address: str, best_of: Sequence[str] = ()) -> dict[str, Side]:
    """Load the evaluations at `RUN[:STAGE[/TASK_SET]]` by task set. RUN alone means its last stage. Raises UsageError.

    With the stage `best`, all stages, or those in `best_of`, are loaded, and the best can be chosen. An address may also be
    a report of `turnsmith grade`, its folder, or graded predictions. Such an evaluation has the task set `""`.
    """
    place = Path(address)
    if not (place / "config.json").exists() and (report := find_report(place)):
        if best_of:
            raise UsageError(f"--best-of names stages, and {address} is a report: leave the option out")
        graded = load_report(report)
        return {UNNAMED: Side([graded], graded)}
    run, stage, task_set = split_address(address)
    folder = RunFolder(Path(run))
    finished = list_evaluations(folder)
    if not finished:
        raise UsageError(f"{run} has no finished evaluation: compare another run")
    stages = [*dict.fromkeys(evaluated for evaluated, _ in finished)]
    is_best = stage == BEST and BEST not in stages
    stage = stage or finished[-1][0]
    if best_of and not is_best and stage not in best_of:
        raise UsageError(f"--best-of lacks {stage}, the stage of {address}: name all stages among which it was chosen")
    wanted = [*dict.fromkeys(best_of)] or (stages if is_best else [stage])
    for each in wanted:
        refuse_missing(run, each, task_set, finished)
    sides = {}
    for name in dict.fromkeys(name for _, name in finished if task_set in ("", name)):
        found = {each: load_evaluation(folder, each, name) for each in wanted if (each, name) in finished}
        if found and (is_best or stage in found):
            sides[name] = Side([*found.values()], None if is_best else found[stage])
    return sides


def refuse_missing(run: str, stage: str, task_set: str, finished: Sequence[tuple[str, str]]) -> None:
    """Raise UsageError if a stage was not evaluated on the task set or, if that is empty, on none."""
    if not any(evaluated == stage and task_set in ("", name) for evaluated, name in finished):
        known = ", ".join(f"{evaluated}/{name}" for evaluated, name in finished)
        raise UsageError(f"{run} has no finished evaluation {stage}/{task_set or '…'}: it has {known}")


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
    return Evaluation(
        name=f"{folder.path}:{stage}/{task_set}",
        rates=result["per_task"],
        num_lost=result.get("num_lost") or 0,
        lost=result.get("lost_per_task") or {},
        repositories=guess_repositories(result["per_task"])
        | {task.instance_id: task.repo for task in tasks if task.repo},
    )


def load_report(report: ReportFile) -> Evaluation:
    """Load the verdicts of a report as an evaluation with one attempt per task."""
    rates, lost = report.rates, report.lost
    repositories = guess_repositories(rates) | report.repositories
    return Evaluation(str(report.file), rates, len(lost), lost, repositories)


def guess_repositories(tasks: Iterable[str]) -> dict[str, str]:
    """Guess the repository of each task from the beginning of its id."""
    return {task: ID_END.sub("", task) for task in tasks}
