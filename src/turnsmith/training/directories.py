"""Search and checks of model directories, without torch, which takes seconds to import."""

from importlib.resources import files
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.training.weight_files import WHOLE, check_weights, find_weights

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")
"""Names of tokenizer files. A model directory must have one of them."""


def find_model(path: str) -> Path:
    """Return the directory of a model, given by path, or by `tiny` for the packaged base policy. Raises UsageError."""
    directory = Path(str(files("turnsmith") / "policies" / "tiny")) if path == "tiny" else Path(path)
    if not (directory / "config.json").is_file():
        raise _missing(directory, "config.json")
    return directory


def check_model(path: str) -> None:
    """Raise UsageError if a model directory lacks a file or its weight files are truncated. No weights are loaded."""
    directory = find_model(path)
    if not any((directory / name).is_file() for name in TOKENIZERS):
        raise _missing(directory, "tokenizer")
    weights = find_weights(directory)
    if not weights:
        raise _missing(directory, f"weights, i.e. {' or '.join(WHOLE)} or an index of shards")
    for file, placed in weights.items():
        check_weights(file, placed)


def _missing(directory: Path, part: str) -> UsageError:
    return UsageError(f"no model at {directory}: it has no {part}: give a Hugging Face model directory, or 'tiny'")
