"""Soundness check of tasks: the gold patch must resolve the task, and the untouched tree must not."""

import os
from dataclasses import dataclass
from functools import partial

from turnsmith.config import RolloutConfig
from turnsmith.grading.grading import Grader
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import Outcome, TaskTree


@dataclass(frozen=True)
class Check:
    """Grades of a task's gold patch and of its untouched tree."""

    instance_id: str
    gold: Outcome
    gold_detail: str
    untouched: Outcome
    untouched_detail: str
    duration_s: float

    @property
    def is_sound(self) -> bool:
        return self.gold is Outcome.RESOLVED and self.untouched is Outcome.UNRESOLVED

    @property
    def is_checked(self) -> bool:
        """Return False if the infrastructure failed, so that a grade is missing."""
        return Outcome.GRADER_FAILED not in (self.gold, self.untouched)

    @property
    def fault(self) -> str:
        """Describe why the task fails the check; empty if it passes."""
        if self.gold is not Outcome.RESOLVED:
            return f"gold patch {self.gold}: {self.gold_detail}"
        return "" if self.is_sound else f"untouched tree {self.untouched}: {self.untouched_detail or 'no test fails'}"


async def check_tasks(task_set: TaskSet, provider: SandboxProvider, progress: Progress) -> list[Check]:
    """Check every task of a set, as many at a time as there are cores."""
    grader = Grader(provider, tests_timeout_s=RolloutConfig().tests_timeout_s, num_workers=os.cpu_count() or 1)
    check = partial(check_task, grader=grader)
    return await for_each(task_set.list_trees(), check, progress, f"checking {task_set.name}")


async def check_task(tree: TaskTree, grader: Grader) -> Check:
    """Grade a task's gold patch, then its untouched tree."""
    gold = await grader.grade(tree, tree.task.patch)
    untouched = await grader.grade_unpatched(tree)
    verdicts = gold.outcome, gold.detail, untouched.outcome, untouched.detail
    return Check(tree.instance_id, *verdicts, gold.duration_s + untouched.duration_s)
