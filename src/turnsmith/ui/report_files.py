"""Verdicts on predictions, from the reports that `turnsmith grade` and SWE-bench's harness write."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.grading.reports import LOG, Report, read_verdict
from turnsmith.io.files import parse_json, read_text
from turnsmith.runs.folder import read_json
from turnsmith.runs.new_folders import to_folder_name
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.predictions import Prediction, keep_last, read_predictions
from turnsmith.types import Outcome

RESOLVED, NOT_RESOLVED, ERROR = "resolved_ids", ("unresolved_ids", "empty_patch_ids"), "error_ids"
"""Lists of task ids in a report. An error is a patch that does not apply, or one without a verdict."""


@dataclass(frozen=True)
class ReportFile:
    """Summary of one set of predictions, with the ids of tasks by verdict."""

    file: Path
    ids: dict[str, list[str]]
    """Name of a list in the report → ids of tasks."""

    @property
    def rates(self) -> dict[str, float]:
        """Task id → 1 if resolved, else 0. Tasks without a prediction, and those that the infrastructure lost, are absent."""
        failed = [*(task for name in NOT_RESOLVED for task in self.ids[name]), *self.ids[ERROR]]
        counted = [task for task in failed if task not in self.lost]
        return dict.fromkeys(counted, 0.0) | dict.fromkeys(self.ids[RESOLVED], 1.0)

    @cached_property
    def lost(self) -> dict[str, int]:
        """Task id → 1 for each prediction that has no verdict because the infrastructure failed."""
        folder = self.find_logs()
        return {task: 1 for task in self.ids[ERROR] if is_lost(folder / to_folder_name(task))} if folder else {}

    @property
    def repositories(self) -> dict[str, str]:
        """Task id → repository, from the task file that was graded with; empty if it is missing."""
        folder = self.find_logs()
        metadata = folder.parent / "run.json" if folder else self.file
        try:
            return {
                task.instance_id: task.repo for task in load_tasks(Path(read_json(metadata)["dataset"])) if task.repo
            }
        except (UsageError, KeyError, TypeError):
            return {}

    def find_logs(self) -> Path | None:
        """Find the folder with a folder of logs for each task; None if it was not copied with the report."""
        folders = self.file.parent.glob("logs/run_evaluation/*/*/")
        return next((each for each in folders if f"{each.name}.{each.parent.name}" == self.file.stem), None)


def is_lost(folder: Path) -> bool:
    """Return True if the infrastructure prevented a verdict: the log says so, or the prediction has no log."""
    log = folder / LOG
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return not lines or lines[-1].partition(":")[0] == Outcome.GRADER_FAILED


def find_report(place: Path) -> ReportFile | None:
    """Find the report at a file or in a folder, or the one on a prediction file; None if `place` is none of these.

    Raises UsageError if a folder holds several reports, or if predictions have no report.
    """
    if place.is_dir():
        reports = [report for file in sorted(place.glob("*.json")) if (report := read_report(file))]
        if len(reports) > 1:
            raise UsageError(f"{place} holds {len(reports)} reports: name one, e.g. {quote(str(reports[0].file))}")
        return reports[0] if reports else find_report_on(place)
    return read_report(place) or find_report_on(place) if place.is_file() else None


def read_report(file: Path) -> ReportFile | None:
    """Read a report; None if the file is no report. Raises UsageError if a list of ids is damaged."""
    try:
        found = parse_json(read_text(file, "the report", "give another file")) if file.suffix == ".json" else None
    except ValueError:
        return None
    if not isinstance(found, dict) or RESOLVED not in found:
        return None
    return ReportFile(file, {name: read_ids(found, name, file) for name in (RESOLVED, *NOT_RESOLVED, ERROR)})


def read_ids(report: dict[str, Any], name: str, file: Path) -> list[str]:
    """Read a list of ids of a report; empty if it is missing. Raises UsageError if it is no list of texts."""
    ids = report.get(name, [])
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
        raise UsageError(f"{file} is damaged: {name} is no list of task ids: grade the predictions again")
    return ids


def find_report_on(place: Path) -> ReportFile | None:
    """Find the report on a file or folder of predictions, beside it or in the current folder; None for other folders.

    Raises UsageError if the predictions have no report, or if they changed after they were graded.
    """
    try:
        predictions = keep_last(read_predictions(place))
    except UsageError:
        if place.is_dir():
            return None
        raise
    for report in list_candidates(place):
        file = report.summary(predictions[0].model)
        if file.is_file() and (found := read_report(file)):
            refuse_changed(place, predictions, report)
            return found
    command = f"turnsmith grade {quote(str(place))} --tasks TASKS"
    raise UsageError(f"{place} has no verdicts: grade it by `{command}`, or give the report if it is in another folder")


def list_candidates(place: Path) -> Iterator[Report]:
    """Yield the reports that `turnsmith grade` writes on predictions, if run in their folder or in the current one."""
    folder, name = (place.resolve().parent, place.resolve().name) if place.is_dir() else (place.parent, place.stem)
    yield Report(folder, name)
    yield Report(Path(), name)


def refuse_changed(place: Path, predictions: list[Prediction], report: Report) -> None:
    """Raise UsageError if the verdict on a prediction is for another patch."""
    try:
        for prediction in predictions:
            read_verdict(report, prediction)
    except UsageError:
        raise UsageError(
            f"{place} changed after it was graded: grade it again with another --run, and compare that report"
        ) from None
