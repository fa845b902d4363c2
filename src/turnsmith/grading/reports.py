"""Evaluation reports in the layout of SWE-bench's harness, so that SWE-bench's tools can read them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turnsmith.errors import UsageError
from turnsmith.grading.testing import SuiteReport
from turnsmith.runs.folder import read_json, write_json
from turnsmith.runs.new_folders import make_folder, to_folder_name
from turnsmith.tasks.predictions import Prediction
from turnsmith.types import Grade, Outcome, Task

SCHEMA_VERSION = 2
REPORT, PATCH, TEST_OUTPUT, LOG, SCRIPT = "report.json", "patch.diff", "test_output.txt", "run_instance.log", "eval.sh"
HAS_REPORT = {Outcome.RESOLVED, Outcome.UNRESOLVED, Outcome.TAMPERED}
"""Outcomes of predictions that get a report; SWE-bench counts other outcomes as errors."""
BEGIN, END, EXIT_CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code"
APPLIED, NOT_APPLIED = ">>>>> Applied Patch", ">>>>> Patch Apply Failed"


class Reason(NamedTuple):
    """Reason why a patch is unresolved, and the regular expression that finds it in a log. Reasons do not change the verdict."""

    name: str
    is_environment: bool
    """True for a fault of the environment (the machine or its network), which no change to source code can cause."""
    pattern: str


REASONS = (
    Reason("browser_launch_failed", True, r"Failed to launch|Failed to connect to the bus"),
    Reason("display_unavailable", True, r"cannot open display|Missing X server|unable to open X display"),
    Reason("out_of_memory", True, r"Cannot allocate memory|OutOfMemoryError|^Killed$"),
    Reason("container_unavailable", True, r"Error response from daemon|Cannot connect to the Docker daemon"),
    Reason("network_unreachable", True, r"Could not resolve host|Temporary failure in name resolution"),
    Reason("missing_module", False, r"Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    Reason("no_tests_collected", False, r"no tests ran|collected 0 items"),
    Reason("tests_timed_out", False, r"Timeout error: \d+ seconds exceeded"),
)
"""Failure reasons, with names, order and patterns of the package swebench 5.0.2. The first match counts."""


@dataclass(frozen=True)
class Report:
    """Folder and name of the reports on one set of predictions."""

    folder: Path
    run: str

    def folder_of(self, prediction: Prediction) -> Path:
        """Return the folder of a prediction's report, patch, logs and script, in the layout of SWE-bench's harness."""
        names = (to_folder_name(prediction.model), to_folder_name(prediction.instance_id))
        return self.folder.joinpath("logs", "run_evaluation", self.run, *names)

    @property
    def metadata(self) -> Path:
        return self.folder.joinpath("logs", "run_evaluation", self.run, "run.json")

    def summary(self, model: str) -> Path:
        return self.folder / f"{to_folder_name(model)}.{self.run}.json"


@dataclass(frozen=True)
class Examination:
    """Prediction with its grade and logs."""

    prediction: Prediction
    task: Task
    grade: Grade
    script: str
    """Shell script with the commands of the test run, for the report; the grader does not run it."""
    application: str
    """Output of the programs that applied the patch."""
    suite: SuiteReport | None
    """Report of the test run; None if no test ran."""

    @property
    def has_report(self) -> bool:
        return self.grade.outcome in HAS_REPORT

    @property
    def applied(self) -> bool:
        return self.suite is not None


def read_verdict(report: Report, prediction: Prediction) -> bool | None:
    """Read an earlier verdict: True if resolved, None if there is none. Raises UsageError if it is for another patch."""
    folder = report.folder_of(prediction)
    if not (folder / REPORT).exists():
        return None
    verdict = read_json(folder / REPORT).get(prediction.instance_id)
    if not verdict or (folder / PATCH).read_bytes() != to_bytes(prediction.patch):
        raise UsageError(f"{folder} holds the verdict on another patch for this task: give another --run or --out")
    return bool(verdict["resolved"])


def write_examination(report: Report, seen: Examination) -> None:
    """Write the files of one prediction; `report.json` last, so that it marks them as complete."""
    folder = make_folder(report.folder_of(seen.prediction))
    (folder / PATCH).write_bytes(to_bytes(seen.prediction.patch))
    texts = {LOG: format_log(seen), SCRIPT: seen.script if seen.applied else None, TEST_OUTPUT: format_output(seen)}
    for name, text in texts.items():
        if text is None:
            (folder / name).unlink(missing_ok=True)  # of an earlier attempt
        else:
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
    if seen.has_report:
        write_json(folder / REPORT, {seen.prediction.instance_id: describe(seen)})


def to_bytes(patch: str) -> bytes:
    """Encode a patch as UTF-8; bytes that were not valid UTF-8 when the patch was read get their old values back."""
    try:
        return patch.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return patch.encode(errors="surrogatepass")


def format_log(seen: Examination) -> str:
    """Format a prediction's log: output of applying its patch, and the verdict."""
    verdict = f"{seen.grade.outcome}: {seen.grade.detail}" if seen.grade.detail else f"{seen.grade.outcome}"
    lines = [f"{APPLIED if seen.applied else NOT_APPLIED}:", seen.application.rstrip("\n"), verdict]
    if seen.suite and seen.suite.is_finished and set(seen.grade.statuses.values()) == {"missing"}:
        lines.append("no tests ran")  # pytest does not report this, since it also runs the grader's tests
    return "\n".join(lines) + "\n"


def format_output(seen: Examination) -> str | None:
    """Format the tests' log between the marks that SWE-bench's harness writes; None if no test ran."""
    if not seen.suite:
        return None
    output = f"{BEGIN}\n{seen.suite.log}\n{END}\n"
    if seen.suite.timed_out:
        return f"{output}\n\nTimeout error: {seen.suite.limit_s:.0f} seconds exceeded."
    return f"{output}{EXIT_CODE}: {seen.suite.exit_code}\n"


def describe(seen: Examination) -> dict[str, Any]:
    """Describe a verdict in the columns of SWE-bench's harness, with details in the column `turnsmith`."""
    task, grade, log = seen.task, seen.grade, format_output(seen) or ""
    found = bool(seen.suite and seen.suite.results)
    reason = None if found else find_reason(log)
    known = {"outcome": grade.outcome.value, "detail": grade.detail, "flags": grade.flags, "isolation": grade.isolation}
    columns: dict[str, Any] = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": found,
        "resolved": grade.resolved,
        "infra_failure": bool(reason and reason.is_environment),
    }
    if reason:
        columns["infra_failure_reason"] = reason.name
    if found:
        columns["tests_status"] = {
            "FAIL_TO_PASS": split(task.FAIL_TO_PASS, grade.statuses),
            "PASS_TO_PASS": split(task.PASS_TO_PASS, grade.statuses),
            "FAIL_TO_FAIL": split((), {}),
            "PASS_TO_FAIL": split((), {}),
        }
    return {**columns, "turnsmith": known}


def split(tests: Sequence[str], statuses: Mapping[str, str]) -> dict[str, list[str]]:
    """Split expected tests into passed and failed tests."""
    success = [test for test in tests if statuses.get(test) == "passed"]
    passed = set(success)
    return {"success": success, "failure": [test for test in tests if test not in passed]}


def summarise(
    report: Report, tasks: Collection[str], predictions: Sequence[Prediction], verdicts: Mapping[str, bool]
) -> dict[str, Any]:
    """Summarise all predictions as SWE-bench does: counts and ids. A patch without a verdict counts as an error."""
    submitted = {each.instance_id for each in predictions}
    empty = {each.instance_id for each in predictions if not each.patch and each.instance_id in tasks}
    ids = {
        "submitted": submitted,
        "completed": set(verdicts),
        "incomplete": set(tasks) - submitted,
        "resolved": {name for name, resolved in verdicts.items() if resolved},
        "unresolved": {name for name, resolved in verdicts.items() if not resolved},
        "empty_patch": empty,
        "error": (submitted & set(tasks)) - empty - set(verdicts),
    }
    failed = ids["unresolved"] | ids["error"]
    reasons = find_reasons(report, (each for each in predictions if each.instance_id in failed))
    ids["infra_failure"] = {name for name, reason in reasons.items() if reason.is_environment}
    ids["ambiguous_failure"] = reasons.keys() - ids["infra_failure"]
    counts = {f"{name}_instances": len(found) for name, found in ids.items() if name != "incomplete"}
    lists = {f"{name}_ids": sorted(found) for name, found in ids.items()}
    named = {name: reason.name for name, reason in sorted(reasons.items())}
    return {
        "total_instances": len(tasks),
        **counts,
        **lists,
        "failure_reasons": named,
        "schema_version": SCHEMA_VERSION,
    }


def find_reasons(report: Report, failed: Iterable[Prediction]) -> dict[str, Reason]:
    """Find the failure reasons in logs of failed predictions; return task id → reason."""
    reasons = {}
    for prediction in failed:
        files = [report.folder_of(prediction) / name for name in (TEST_OUTPUT, LOG)]
        log = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.exists())
        if reason := find_reason(log):
            reasons[prediction.instance_id] = reason
    return reasons


def find_reason(log: str) -> Reason | None:
    """Find the first failure reason whose pattern occurs in a log."""
    return next((reason for reason in REASONS if re.search(reason.pattern, log, re.MULTILINE)), None)
