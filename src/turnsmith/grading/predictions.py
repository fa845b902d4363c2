"""Grading of predictions, i.e. patches made by any program, with the grader that training uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from turnsmith.errors import GradingError, SandboxError, UsageError
from turnsmith.grading.cases import Case
from turnsmith.grading.fallbacks import Application, apply_as_harness
from turnsmith.grading.grading import Grader, to_one_line
from turnsmith.grading.reports import BEGIN, END, Examination, Report, read_verdict, summarise, write_examination
from turnsmith.grading.testing import SuiteReport
from turnsmith.runs.folder import write_json
from turnsmith.runs.new_folders import make_folder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.predictions import Prediction
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import Grade, Outcome, TaskTree

MAX_TRIES = 3


@dataclass(frozen=True)
class Submission:
    """Predictions to grade, their task set, and the folder and name of the reports."""

    predictions: list[Prediction]
    task_set: TaskSet
    report: Report
    num_workers: int
    tests_timeout_s: float


@dataclass(frozen=True)
class Graded:
    """Summary of a grading run, and the tasks without a verdict."""

    summary: dict[str, Any]
    lost: list[str]
    """Ids of tasks that have no verdict because the infrastructure failed."""


def refuse_unknown(predictions: Sequence[Prediction], task_set: TaskSet) -> None:
    """Raise UsageError if a prediction is for a task that is not in the task set; the task file may be the wrong one."""
    known = {*task_set.ids()}
    if unknown := [each.instance_id for each in predictions if each.instance_id not in known]:
        what = f"{len(unknown)} of {len(predictions)} predictions are for tasks that are not in {task_set.file}"
        raise UsageError(f"{what}, e.g. {unknown[0]!r}: give the task file of these predictions, or --skip-unknown")


async def grade_submission(submission: Submission, provider: SandboxProvider, progress: Progress) -> Graded:
    """Grade predictions that have no report, and write reports. Raises UsageError if a task's report is on another patch.

    If the infrastructure fails, a prediction gets no verdict; the next call grades it again.
    """
    report, pairs = submission.report, pair(submission)
    known = {tree.instance_id: read_verdict(report, prediction) for tree, prediction in pairs}
    verdicts = {name: resolved for name, resolved in known.items() if resolved is not None}
    make_folder(report.metadata.parent)
    write_json(report.metadata, {"dataset": str(submission.task_set.file), "split": "", "task_repo": None})
    waiting = [each for each in pairs if each[0].instance_id not in verdicts]
    grader, lost = PredictionGrader(submission, provider), list[str]()

    async def work(pair: tuple[TaskTree, Prediction]) -> str:
        tree, prediction = pair
        seen = await grader.examine(tree, prediction)
        write_examination(report, seen)
        if seen.has_report:
            verdicts[tree.instance_id] = seen.grade.resolved
        elif seen.grade.outcome is Outcome.GRADER_FAILED:
            lost.append(tree.instance_id)
            progress.log(f"{tree.instance_id} could not be graded: {seen.grade.detail}")
        return f"resolved {sum(verdicts.values())}/{len(verdicts)}"

    label, num_workers = f"grading {report.run}", submission.num_workers
    await for_each(waiting, work, progress, label, num_workers=num_workers, num_done=len(verdicts), describe=str)
    lost += report_ungradable(submission, progress)
    summary = summarise(report, submission.task_set.ids(), submission.predictions, verdicts)
    write_json(report.summary(submission.predictions[0].model), summary)
    return Graded(summary, lost)


class PredictionGrader:
    """Grader of predictions. It applies a patch by the programs that SWE-bench uses, and grades the resulting difference."""

    def __init__(self, submission: Submission, provider: SandboxProvider) -> None:
        self._provider, self._timeout_s = provider, submission.tests_timeout_s
        self._suites: dict[str, SuiteReport] = {}
        self._grader = Grader(
            provider,
            tests_timeout_s=submission.tests_timeout_s,
            num_workers=submission.num_workers,
            on_report=lambda task, suite: self._suites.update({task.instance_id: suite}),
        )

    async def examine(self, tree: TaskTree, prediction: Prediction) -> Examination:
        """Apply and grade a prediction, up to three times if the infrastructure fails."""
        for _ in range(MAX_TRIES):
            seen = await self._examine(tree, prediction)
            if seen.grade.outcome is not Outcome.GRADER_FAILED:
                break
        return seen

    async def _examine(self, tree: TaskTree, prediction: Prediction) -> Examination:
        script = format_script(Case(tree, self._provider, self._timeout_s))
        try:
            application = await apply_as_harness(self._provider, tree, prediction.patch)
        except (SandboxError, GradingError) as error:
            grade = Grade(outcome=Outcome.GRADER_FAILED, detail=to_one_line(str(error)))
            return Examination(prediction, tree.task, grade, script, "", None)
        grade = await self._judge(tree, application)
        suite = self._suites.pop(tree.instance_id, None)
        return Examination(prediction, tree.task, grade, script, application.log, suite)

    async def _judge(self, tree: TaskTree, application: Application) -> Grade:
        """Grade the difference that a patch made in the tree; if no part of it may be graded, grade the untouched tree."""
        if application.patch is None:
            return Grade(outcome=Outcome.PATCH_INVALID, detail="does not apply")
        grade = await self._grader.grade(tree, application.patch)
        if grade.outcome is not Outcome.EMPTY_PATCH:
            return grade
        untouched = await self._grader.grade_unpatched(tree)
        return untouched.model_copy(update={"flags": [*untouched.flags, *grade.flags]})


def format_script(case: Case) -> str:
    """Format the commands of a test run as a shell script for the report; the grader does not run it."""
    run = " ".join([case.task.test_command, *map(quote, case.directives)])
    lines = ["#!/bin/bash", f"cd {quote(case.task.workdir)}", *case.task.setup, f": '{BEGIN}'", run, f": '{END}'"]
    return "\n".join(lines) + "\n"


def report_ungradable(submission: Submission, progress: Progress) -> list[str]:
    """Log the predictions whose test results this installation cannot read, with the reasons; return their task ids."""
    ungradable = submission.task_set.excluded
    names = [each.instance_id for each in submission.predictions if each.instance_id in ungradable]
    for name in names:
        progress.log(f"{name} could not be graded: it {ungradable[name].detail}")
    return names


def pair(submission: Submission) -> list[tuple[TaskTree, Prediction]]:
    """Pair each task with its prediction; leave out predictions without a patch."""
    answers = {each.instance_id: each for each in submission.predictions if each.patch}
    trees = [tree for tree in submission.task_set.list_trees() if tree.instance_id in answers]
    return [(tree, answers[tree.instance_id]) for tree in trees]
