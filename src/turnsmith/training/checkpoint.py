"""Checkpoints of a training run: Hugging Face model directories with the trainer's state, written atomically.

The file `trainer.pt` holds counters and the states of random generators, the folder `optimizer` the optimizer's state. Trainers
of one process and of many ranks read each other's checkpoints.
"""

import io
import os
import pickle
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from transformers import PreTrainedModel

from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import follow_umask
from turnsmith.training import optimizer_state

STATE = "trainer.pt"
OLD_STATE = "optimizer"
"""Key of the optimizer's state in the file `trainer.pt` of version 0.1. Only the trainer of one process reads it."""
WRITE_ERRORS = (OSError, SafetensorError, CheckpointException)
"""Errors of writing files, such as for a full disk."""

TOKENIZER_FILES = (
    *("tokenizer.*", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "chat_template.jinja"),
)


def save_checkpoint(
    directory: Path, model: PreTrainedModel, state: dict[str, Any], of_optimizer: Mapping[str, Tensor] | None = None
) -> None:
    """Write a checkpoint: weights, configuration, tokenizer, and the states of trainer and optimizer. Raises UsageError."""
    with replacing_directory(directory) as temporary:
        save_model(model, temporary)
        copy_tokenizer(Path(model.name_or_path or ""), temporary)
        optimizer_state.write_state(temporary / optimizer_state.FOLDER, of_optimizer or {})
        write_trainer_state(temporary, state)


def write_trainer_state(directory: Path, state: dict[str, Any]) -> None:
    """Write counters and the states of random generators to a checkpoint."""
    # Serialise in memory first, since torch's file writer hides the cause of a failed write.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    (directory / STATE).write_bytes(buffer.getbuffer())


def save_model(model: PreTrainedModel, directory: Path) -> None:
    """Write a model's weights and configuration to a directory. Raises OSError, SafetensorError."""
    model.save_pretrained(directory)
    follow_umask(directory.glob("*.safetensors"))


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy tokenizer files and chat template from one model directory to another."""
    for file in (file for name in TOKENIZER_FILES for file in source.glob(name)):
        shutil.copyfile(file, target / file.name)


def read_trainer_state(directory: Path) -> dict[str, Any]:
    """Read counters and the states of random generators from a checkpoint. Raises UsageError if there is none."""
    if not (directory / STATE).is_file():
        raise UsageError(f"cannot resume from {directory}: {STATE} is missing")
    try:
        return torch.load(directory / STATE, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise UsageError(
            f"cannot resume from {directory}: {STATE} is damaged: resume from another checkpoint"
        ) from error


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory. It replaces `path` if the `with` block succeeds, and is deleted otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        replace(path, temporary)
    except WRITE_ERRORS as error:
        raise UsageError(refuse_to_write(path, error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace(path: Path, new: Path) -> None:
    """Rename a directory to `path`, and delete the one that was there."""
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    # A directory cannot replace a non-empty one by renaming, so move the old one away first.
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def refuse_to_write(path: Path, error: BaseException) -> str:
    """Return the error message for a checkpoint that could not be written."""
    return f"cannot write {path}: {optimizer_state.explain(error)}; free disk space there, then resume"
