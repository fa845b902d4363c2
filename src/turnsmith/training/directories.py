"""Search and checks of model directories. The module does not import torch, since that import takes seconds."""

import json
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open

from turnsmith.errors import UsageError
from turnsmith.policies import locate
from turnsmith.training.published.hub import PREFIX, find_downloaded

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")
"""Names of tokenizer files. A model directory must have one of them."""
WHOLE = ("model.safetensors", "pytorch_model.bin")
"""File names of weights in a single file, preferred first. A model with several weight files has an index file instead."""
PICKLE = b"\x80"
"""First byte of a weight file of torch before 1.6. Only newer ones, zip archives, are checked for truncation."""


def find_model(path: str) -> Path:
    """Return the directory of a model: `path`, the policy `tiny` of Turnsmith, or `hub:owner/name`. Raises UsageError."""
    directory = find_downloaded(path) if path.startswith(PREFIX) else locate(path)
    if not (directory / "config.json").is_file():
        raise _missing(directory, "config.json")
    return directory


def check_model(path: str) -> None:
    """Raise UsageError if a model directory lacks a file or its weight files are truncated. No weights are loaded."""
    directory = find_model(path)
    if not any((directory / name).is_file() for name in TOKENIZERS):
        raise _missing(directory, "tokenizer")
    list_weights(directory)


def list_weights(directory: Path) -> list[Path]:
    """List the weight files of a model directory. Raises UsageError if one is missing or truncated, or lacks a tensor."""
    weights = find_weights(directory)
    if not weights:
        raise _missing(directory, f"weights, i.e. {' or '.join(WHOLE)} or an index of shards")
    for file, placed in weights.items():
        check_weights(file, placed)
    return list(weights)


def _missing(directory: Path, part: str) -> UsageError:
    return UsageError(
        f"no model at {directory}: {part} is missing; give a Hugging Face model directory, hub:OWNER/NAME, or 'tiny'"
    )


def find_weights(directory: Path) -> dict[Path, set[str]]:
    """Map each weight file to the names of its tensors, as the index of weight files lists them. Raises UsageError."""
    for name in WHOLE:
        if (directory / name).is_file():
            return {directory / name: set()}
        if (index := directory / f"{name}.index.json").is_file():
            return _read_index(index)
    return {}


def check_weights(file: Path, placed: set[str]) -> None:
    """Raise UsageError if a weight file is missing or truncated, or lacks one of the tensors in `placed`."""
    try:
        fault = _find_fault_of_safetensors(file, placed) if file.suffix == ".safetensors" else _find_fault(file)
    except FileNotFoundError:
        fault = "the index of shards names it, and it is missing"
    except (SafetensorError, OSError, ValueError) as error:
        fault = str(error).removeprefix("Error while deserializing header: ")
    if fault:
        raise UsageError(f"the weights at {file} cannot be read ({fault}): download that file again")


def _find_fault_of_safetensors(file: Path, placed: set[str]) -> str:
    # safetensors reports an unreadable file as missing.
    file.open("rb").close()
    # `safe_open` compares the size of the file with its header.
    with safe_open(file, framework="numpy") as opened:
        missing = sorted(placed - set(opened.keys()))
    return f"it lacks {missing[0]}, which the index of shards places there" if missing else ""


def _find_fault(file: Path) -> str:
    with file.open("rb") as opened:
        is_old = opened.read(1) == PICKLE
    return "" if is_old or zipfile.is_zipfile(file) else "its end is missing, or torch did not save it"


def _read_index(index: Path) -> dict[Path, set[str]]:
    files: dict[Path, set[str]] = {}
    try:
        for tensor, name in json.loads(index.read_text("utf-8"))["weight_map"].items():
            files.setdefault(index.parent / name, set()).add(tensor)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"cannot read {index} as an index of weight files: download that file again") from None
    return files
