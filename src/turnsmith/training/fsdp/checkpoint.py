"""Checkpoints of a sharded trainer: every rank writes its shards, and rank 0 the rest. Any number of ranks can load them.

The files are those of `training.checkpoint`. A checkpoint is written from a copy in host memory, over a process group of its
own, so training may go on meanwhile.
"""

import datetime
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, distributed
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.optim import Optimizer
from transformers import PreTrainedModel

from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import follow_umask
from turnsmith.training.checkpoint import (
    OLD_STATE,
    WRITE_ERRORS,
    copy_tokenizer,
    refuse_to_write,
    replace,
    write_trainer_state,
)
from turnsmith.training.fsdp.exchange import gather_objects
from turnsmith.training.fsdp.loading import load_shards
from turnsmith.training.generators import read_generators, restore_generators
from turnsmith.training.optimizer_state import FOLDER, copy_state, copy_to_host, load_state, write_state

MAX_FILE_BYTES = 5 * 10**9
"""Size of a weight file, above which the next one begins; a single weight may be larger."""
SHARDED = "sharded"
"""Folder in which `HuggingFaceStorageWriter` leaves the shards that it has merged."""
TIMEOUT = datetime.timedelta(hours=2)
"""Time that ranks wait for the slowest one: rank 0 merges the shards of all weights."""


def open_file_group() -> ProcessGroup:
    """Open the process group of checkpoints. All ranks call it. Its collectives never mix with those of training."""
    group: ProcessGroup = distributed.new_group(backend="gloo", timeout=TIMEOUT)
    return group


@dataclass(frozen=True, eq=False)
class RankState:
    """Copy of this rank's part of a trainer's state, in host memory."""

    model: PreTrainedModel
    """Model, of which only configurations and source are used: its weights change."""
    weights: dict[str, Tensor]
    of_optimizer: dict[str, Tensor]
    generators: dict[str, Any]
    of_trainer: dict[str, Any]
    """Kind of moments, and counters."""


def copy_rank_state(
    model: PreTrainedModel, optimizer: Optimizer, of_trainer: dict[str, Any], group: ProcessGroup
) -> RankState:
    """Copy this rank's part of a trainer's state."""
    return RankState(model, copy_weights(model), copy_state(model, optimizer, group), read_generators(), of_trainer)


@torch.no_grad()
def copy_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Copy this rank's shards of a model to host memory. A weight that layers share is copied once."""
    return {name: copy_to_host(parameter, parameter) for name, parameter in model.named_parameters()}


def write_checkpoint(directory: Path, state: RankState, group: ProcessGroup) -> None:
    """Write a checkpoint from the states of all ranks; it replaces `directory` when it is complete.

    All ranks need the same file system. If a rank cannot write, all raise UsageError and the old checkpoint stays.
    """
    with replacing_on_ranks(directory, group) as temporary:
        write_model(temporary, state.model, state.weights, group)
        write_state(temporary / FOLDER, state.of_optimizer, group)
        of_trainer = {"generators": gather_objects(state.generators, group), **state.of_trainer}
        on_first_rank(partial(write_trainer_state, temporary, of_trainer), group)


def export_weights(directory: Path, model: PreTrainedModel, weights: dict[str, Tensor], group: ProcessGroup) -> None:
    """Write copied weights of all ranks as a Hugging Face directory that replaces `directory`. Raises as `write_checkpoint`."""
    with replacing_on_ranks(directory, group) as temporary:
        write_model(temporary, model, weights, group)


@contextmanager
def replacing_on_ranks(directory: Path, group: ProcessGroup) -> Iterator[Path]:
    """Yield a temporary directory to all ranks; it replaces `directory` if the `with` block succeeds, else it is deleted."""
    temporary = directory.with_name(f".{directory.name}.ranks.tmp")
    try:
        on_first_rank(partial(make_empty, temporary), group)
        yield temporary
        on_first_rank(partial(replace, directory, temporary), group)
    except WRITE_ERRORS as error:
        raise UsageError(refuse_to_write(directory, error)) from error
    finally:
        if group.rank() == 0:
            shutil.rmtree(temporary, ignore_errors=True)


def make_empty(directory: Path) -> None:
    """Make an empty directory in place of what a killed process has left."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def write_model(directory: Path, model: PreTrainedModel, weights: dict[str, Tensor], group: ProcessGroup) -> None:
    """Write the shards of all ranks to safetensors files of whole weights, with configurations and tokenizer."""
    writer = HuggingFaceStorageWriter(
        str(directory),
        fqn_to_index_mapping=number_files(weights),
        save_distributed=True,
        enable_consolidation=True,
    )
    dcp.save(weights, storage_writer=writer, process_group=group)
    on_first_rank(partial(describe, directory, model), group)


def number_files(weights: Mapping[str, Tensor], max_bytes: int = MAX_FILE_BYTES) -> dict[str, int]:
    """Map each weight to the number of its file, counted from 1."""
    numbers, number, size = {}, 1, 0
    for name, tensor in weights.items():
        num_bytes = tensor.numel() * tensor.element_size()
        if size and size + num_bytes > max_bytes:
            number, size = number + 1, 0
        numbers[name], size = number, size + num_bytes
    return numbers


def describe(directory: Path, model: PreTrainedModel) -> None:
    """Complete a model directory that has the weights."""
    shutil.rmtree(directory / SHARDED)
    follow_umask(directory.glob("*.safetensors"))
    model.config.architectures, model.config.dtype = [find_class_name(model)], "float32"
    model.config.save_pretrained(directory)
    if model.can_generate():
        model.generation_config.save_pretrained(directory)
    copy_tokenizer(Path(model.name_or_path or ""), directory)


def find_class_name(model: PreTrainedModel) -> str:
    """Return the name of the model's class. FSDP derives a class of its own from it."""
    return type(model).__name__.removeprefix("FSDP")


def load_checkpoint(
    directory: Path, state: dict[str, Any], model: PreTrainedModel, optimizer: Optimizer, group: ProcessGroup
) -> None:
    """Load a checkpoint of any number of ranks, or of the trainer of one process, in place; `state` is that of its trainer.

    A rank that the saving trainer did not have keeps its random generators. Raises UsageError for another model's checkpoint.
    """
    if OLD_STATE in state:
        raise UsageError(
            f"the checkpoint at {directory} is of an earlier version, which only one process can load: resume the run with "
            'trainer.kind = "local" for one iteration'
        )
    load_shards(model, directory)
    load_state(directory / FOLDER, model, optimizer, group)
    if group.rank() < len(state["generators"]):
        restore_generators(state["generators"][group.rank()])


def on_first_rank(act: Callable[[], object], group: ProcessGroup) -> None:
    """Call a function on rank 0 of a group, while the other ranks wait. If it cannot write, raise OSError on all ranks."""
    faults: list[str | None] = [None]
    if group.rank() == 0:
        try:
            act()
        except WRITE_ERRORS as error:
            faults = [str(error)]
    distributed.broadcast_object_list(faults, group=group, group_src=0)
    if faults[0] is not None:
        raise OSError(faults[0])
