"""Grading of predictions that anybody made, by the grader that pays the policy."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.recipes.reports import Report, read_verdict, summarise, write_verdict
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.rewards.grading import Grader
from turnsmith.runs import write_json
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.predictions import Prediction
from turnsmith.tracking import Progress
from turnsmith.types import Outcome, Task


@dataclass(frozen=True)
class Submission:
    """Predictions, the tasks that they answer, and where the report goes."""

    predictions: list[Prediction]
    task_set: TaskSet
    report: Report
    num_workers: int
    tests_timeout_s: float


def refuse_unknown(predictions: Sequence[Prediction], task_set: TaskSet) -> None:
    """Raises UsageError where a prediction answers no task: the wrong task file would else look like a bad model."""
    known = {*task_set.ids()}
    if unknown := [each.instance_id for each in predictions if each.instance_id not in known]:
        what = f"{len(unknown)} of {len(predictions)} predictions are for tasks that {task_set.file} has not"
        raise UsageError(f"{what}, e.g. {unknown[0]!r}: give the tasks that were played, or --skip-unknown")


async def grade_submission(submission: Submission, provider: SandboxProvider, progress: Progress) -> dict[str, Any]:
    """Grade what has no verdict yet, and write the reports; gives that of the run. Raises UsageError.

    What the infrastructure kept from a verdict has none, and the same call tries it again.
    """
    report, logs = submission.report, dict[str, str]()
    verdicts = find_verdicts(submission)
    waiting = [each for each in pair(submission) if each[0].instance_id not in verdicts]
    grader = Grader(
        provider,
        tests_timeout_s=submission.tests_timeout_s,
        num_workers=submission.num_workers,
        on_report=lambda task, suite: logs.update({task.instance_id: suite.log}),
    )
    label = f"grading {report.run}"
    progress.begin(label, len(verdicts) + len(waiting))
    progress.advance(label, len(verdicts))

    async def grade(task: Task, layers: tuple[Path, ...], prediction: Prediction) -> None:
        found = await grader.grade(task, layers, prediction.patch)
        if found.outcome is Outcome.GRADER_FAILED:
            progress.say(f"{task.instance_id} could not be graded: {found.detail}")
        else:
            write_verdict(report, prediction, task, found, logs.pop(task.instance_id, ""))
            verdicts[task.instance_id] = found.resolved
        progress.advance(label, note=f"resolved {sum(verdicts.values())}/{len(verdicts)}")

    await asyncio.gather(*(grade(*each) for each in waiting))
    progress.end(label)
    report_aside(submission, progress)
    summary = summarise(submission.task_set.ids(), submission.predictions, verdicts)
    write_json(report.summary(submission.predictions[0].model), summary)
    return summary


def report_aside(submission: Submission, progress: Progress) -> None:
    """Say why predictions for tasks that were set aside have no verdict."""
    for prediction in submission.predictions:
        if fault := submission.task_set.aside.get(prediction.instance_id):
            progress.say(f"{prediction.instance_id} could not be graded: it {fault.detail}")


def pair(submission: Submission) -> list[tuple[Task, tuple[Path, ...], Prediction]]:
    """Each task that has a patch, its layers, and the patch."""
    answers = {each.instance_id: each for each in submission.predictions if each.patch.strip()}
    tasks = [each for each in submission.task_set.with_layers() if each[0].instance_id in answers]
    return [(task, layers, answers[task.instance_id]) for task, layers in tasks]


def find_verdicts(submission: Submission) -> dict[str, bool]:
    """What was graded before: task → was it resolved? Raises UsageError where that was another patch."""
    found = {task.instance_id: read_verdict(submission.report, prediction) for task, _, prediction in pair(submission)}
    return {name: resolved for name, resolved in found.items() if resolved is not None}
