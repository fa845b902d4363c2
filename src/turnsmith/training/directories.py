"""Where a model lies; found without torch, which takes seconds to import."""

from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.policies import locate

NEEDED = {
    "tokenizer": ("tokenizer.json", "tokenizer_config.json"),
    "weights": ("*.safetensors", "*.bin"),
}
"""What a model directory holds, and the names of files of which one is there."""


def find_model(path: str) -> Path:
    """The directory of a model, `tiny` being the one that ships with the package. Raises UsageError."""
    directory = locate(path)
    if not (directory / "config.json").is_file():
        raise _missing(directory, "config.json")
    return directory


def check_model(path: str) -> None:
    """Raise UsageError where a policy could not be loaded from there, for want of a file."""
    directory = find_model(path)
    for what, names in NEEDED.items():
        if not any(file.is_file() for name in names for file in directory.glob(name)):
            raise _missing(directory, what)


def _missing(directory: Path, what: str) -> UsageError:
    return UsageError(f"no model at {directory}: it has no {what}: give a Hugging Face model directory, or 'tiny'")
