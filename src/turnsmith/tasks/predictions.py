"""Predictions: patches of a model for tasks, as SWE-bench defines them. Reads files of common agents, writes JSONL."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import parse_rows, read_text, write_file

UNNAMED = "unnamed"
"""Model name of predictions that name no model."""
FILE_NAMES = ("preds.json", "all_preds.jsonl", "output.jsonl")
"""Names of prediction files that SWE-agent (two versions) and OpenHands write."""


@dataclass(frozen=True)
class Prediction:
    """Patch that a model wrote for a task."""

    instance_id: str
    model: str
    patch: str
    """Patch as the model's agent wrote it; empty if the model made no change."""


def read_predictions(place: Path) -> list[Prediction]:
    """Read predictions from a file, or a run folder of SWE-agent or OpenHands. Raises UsageError with file and line."""
    files = find_files(place) if place.is_dir() else [place]
    predictions = [each for file in files for each in _read_file(file)]
    if not predictions:
        raise UsageError(f"{place} holds no rows with instance_id, model_name_or_path and model_patch")
    return predictions


def find_files(folder: Path) -> list[Path]:
    """Find the prediction files of a run folder: one per task or, if there are none, a combined file. Raises UsageError."""
    if each := sorted([*folder.glob("*/*.pred"), *folder.glob("*.pred")]):
        return each
    if file := next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None):
        return [file]
    raise UsageError(f"{folder} holds no predictions: it has no ID/ID.pred, and none of {', '.join(FILE_NAMES)}")


def _read_file(file: Path) -> list[Prediction]:
    """Read predictions from JSONL, or a JSON file: list of rows, one row, or mapping of ids to rows. Raises UsageError."""
    text = read_text(file, "the predictions", "give JSON lines, or a run folder of SWE-agent or OpenHands")
    rows = parse_rows(text, file)
    if text.lstrip().startswith("{") and len(rows) == 1:
        rows = list(_split_mapping(rows[0], file))
    return [_read_row(row, place) for place, row in rows]


def keep_last(predictions: Iterable[Prediction]) -> list[Prediction]:
    """Keep the last prediction per task, in order of first occurrence, as SWE-bench's harness does."""
    return [*{each.instance_id: each for each in predictions}.values()]


def write_predictions(file: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions in SWE-bench's JSONL format, atomically."""
    columns = ("instance_id", "model_name_or_path", "model_patch")
    rows = (dict(zip(columns, (each.instance_id, each.model, each.patch), strict=True)) for each in predictions)
    write_file(file, "".join(json.dumps(row) + "\n" for row in rows))


def _split_mapping(found: tuple[str, dict[str, Any]], file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a JSON object that maps ids to rows, or the object itself if it is a row."""
    _, rows = found
    if "instance_id" in rows or _is_of_openhands(rows):
        yield found
        return
    for name, row in rows.items():
        yield f"{file}, row {name!r}", {"instance_id": name, **row} if isinstance(row, dict) else row


def _read_row(row: Any, place: str) -> Prediction:
    if not isinstance(row, dict):
        raise UsageError(f"{place}: this row is no prediction: give an object with instance_id and model_patch")
    row = _convert_row(row) if _is_of_openhands(row) else row
    name, patch = row.get("instance_id"), row.get("model_patch")
    if not isinstance(name, str) or not name.strip():
        fault = "is missing" if name is None else "is empty or not text"
        raise UsageError(f"{place}: column 'instance_id' {fault}: give the id of the task, or leave the row out")
    if "model_patch" not in row:
        raise UsageError(f"{place}: column 'model_patch' is missing: give the patch, or null for none")
    if patch is not None and not isinstance(patch, str):
        raise UsageError(f"{place}: column 'model_patch' is not text: give the patch of {name}, or null for none")
    return Prediction(name, _read_model(row.get("model_name_or_path"), place), patch or "")


def _is_of_openhands(row: dict[str, Any]) -> bool:
    return "model_patch" not in row and ("test_result" in row or "git_patch" in row)


def _convert_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of OpenHands' output.jsonl to SWE-bench's columns. The patch is None if the attempt was aborted."""
    name = row.get("instance_id") or _as_dict(row.get("instance")).get("instance_id")
    metadata = _as_dict(row.get("metadata"))
    model = _as_dict(metadata.get("llm_config") or metadata.get("llm")).get("model")
    patch = row.get("git_patch") or _as_dict(row.get("test_result")).get("git_patch")
    return {"instance_id": name, "model_name_or_path": model, "model_patch": patch}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_model(model: Any, place: str) -> str:
    name = model or UNNAMED
    if not isinstance(name, str):
        raise UsageError(f"{place}: model_name_or_path is not text: give the name of the model, or leave it out")
    return name
