"""Checkpoints of a training run: Hugging Face model directories with the trainer's state, written atomically."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from turnsmith.engines.weights import load_weights
from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import follow_umask

STATE = "trainer.pt"

TOKENIZER_FILES = (
    *("tokenizer.*", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "chat_template.jinja"),
)


def save_checkpoint(directory: Path, model: PreTrainedModel, state: dict[str, Any]) -> None:
    """Write a checkpoint: weights, configuration, tokenizer and trainer state. Raises UsageError."""
    with replacing_directory(directory) as temporary:
        save_model(model, temporary)
        copy_tokenizer(Path(model.name_or_path or ""), temporary)
        save_state(state, temporary / STATE)


def save_state(state: dict[str, Any], path: Path) -> None:
    """Write the trainer's state, one tensor after the other, so that host memory never holds all of a GPU's. Raises OSError."""
    try:
        with path.open("wb") as file:
            torch.save(state, file)
    except RuntimeError as error:
        # torch hides the cause of a failed write.
        raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def save_model(model: PreTrainedModel, directory: Path) -> None:
    """Write a model's weights and configuration to a directory. Raises OSError, SafetensorError."""
    model.save_pretrained(directory)
    follow_umask(directory.glob("*.safetensors"))


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy tokenizer files and chat template from one model directory to another."""
    for file in (file for name in TOKENIZER_FILES for file in source.glob(name)):
        shutil.copyfile(file, target / file.name)


def load_checkpoint(directory: Path, model: PreTrainedModel) -> dict[str, Any]:
    """Load saved weights into `model` in place and return the trainer's state. Raises UsageError if there is no checkpoint."""
    if not (directory / STATE).is_file():
        raise UsageError(f"cannot resume from {directory}: {STATE} is missing")
    load_weights(directory, model)
    # Without `map_location` a GPU would hold all moments twice, and a machine without a GPU could not read its checkpoints.
    # The file stays mapped until the moments are copied to a GPU; on a CPU they would remain in the file.
    return torch.load(directory / STATE, map_location="cpu", weights_only=True, mmap=model.device.type == "cuda")


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory. It replaces `path` if the `with` block succeeds, and is deleted otherwise."""
    temporary, old = (path.with_name(f".{path.name}.{os.getpid()}.{kind}") for kind in ("tmp", "old"))
    try:
        temporary.mkdir(parents=True)
        yield temporary
        # A directory cannot replace a non-empty one by renaming, so move the old one away first.
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"cannot write {path}: {error}; free disk space there, then resume") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
