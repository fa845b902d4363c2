"""The layout in which SWE-bench's harness leaves an evaluation of predictions, so that its tools and tables read ours."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.new_folders import make_folder
from turnsmith.runs import read_json, write_json
from turnsmith.tasks.predictions import Prediction
from turnsmith.types import Grade, Outcome, Task

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Report:
    """Where one evaluation of one file of predictions lies."""

    folder: Path
    run: str
    """Name of the evaluation."""

    def place(self, prediction: Prediction) -> Path:
        """The folder of one prediction: `report.json`, `patch.diff`, `test_output.txt`."""
        names = (to_name(prediction.model), to_name(prediction.instance_id))
        return self.folder.joinpath("logs", "run_evaluation", self.run, *names)

    def summary(self, model: str) -> Path:
        return self.folder / f"{to_name(model)}.{self.run}.json"


def to_name(text: str) -> str:
    """`owner/model` → `owner__model`, as the harness does."""
    return text.replace("/", "__")


def read_verdict(report: Report, prediction: Prediction) -> bool | None:
    """Was it resolved when it was graded before? None where it was not. Raises UsageError where that was another patch."""
    place = report.place(prediction)
    if not (place / "report.json").exists():
        return None
    if (place / "patch.diff").read_bytes() != to_bytes(prediction.patch):
        raise UsageError(f"{place} holds the verdict on another patch: give another --run, or another --out")
    return bool(read_json(place / "report.json")[prediction.instance_id]["resolved"])


def write_verdict(report: Report, prediction: Prediction, task: Task, grade: Grade, log: str) -> None:
    """The files of one prediction; `report.json` last: where it exists, the others do."""
    place = report.place(prediction)
    make_folder(place)
    (place / "patch.diff").write_bytes(to_bytes(prediction.patch))
    (place / "test_output.txt").write_text(log, encoding="utf-8", errors="replace")
    write_json(place / "report.json", {prediction.instance_id: describe(task, grade)})


def to_bytes(patch: str) -> bytes:
    """As git reads it; what is no text at all, and is refused, as it came."""
    try:
        return patch.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return patch.encode(errors="surrogatepass")


def describe(task: Task, grade: Grade) -> dict[str, Any]:
    """The columns of the harness, and what we know beyond them."""
    applied = grade.outcome is not Outcome.PATCH_INVALID
    known = {"outcome": grade.outcome.value, "detail": grade.detail, "flags": grade.flags, "isolation": grade.isolation}
    return {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": applied,
        "resolved": grade.resolved,
        "tests_status": {
            "FAIL_TO_PASS": split(task.FAIL_TO_PASS, grade.statuses),
            "PASS_TO_PASS": split(task.PASS_TO_PASS, grade.statuses),
            "FAIL_TO_FAIL": split((), {}),
            "PASS_TO_FAIL": split((), {}),
        },
        "turnsmith": known,
    }


def split(tests: Sequence[str], statuses: Mapping[str, str]) -> dict[str, list[str]]:
    """Which expected tests hold, and which do not."""
    success = [test for test in tests if statuses.get(test) == "passed"]
    held = set(success)
    return {"success": success, "failure": [test for test in tests if test not in held]}


def summarise(
    tasks: Collection[str], predictions: Sequence[Prediction], verdicts: Mapping[str, bool]
) -> dict[str, Any]:
    """The report of a whole run: counts, and the ids behind them. What has no verdict for our own fault is an error."""
    submitted = {each.instance_id for each in predictions}
    empty = {each.instance_id for each in predictions if not each.patch.strip() and each.instance_id in tasks}
    ids = {
        "submitted": submitted,
        "completed": set(verdicts),
        "incomplete": set(tasks) - submitted,
        "resolved": {name for name, resolved in verdicts.items() if resolved},
        "unresolved": {name for name, resolved in verdicts.items() if not resolved},
        "empty_patch": empty,
        "error": (submitted & set(tasks)) - empty - set(verdicts),
    }
    counts = {f"{name}_instances": len(found) for name, found in ids.items() if name != "incomplete"}
    lists = {f"{name}_ids": sorted(found) for name, found in ids.items()}
    return {"total_instances": len(tasks), **counts, **lists, "schema_version": SCHEMA_VERSION}
