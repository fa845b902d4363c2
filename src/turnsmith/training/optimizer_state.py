"""State of an optimizer in a checkpoint: float32 tensors under the names of the weights, whatever the optimizer's own format.

`torch.distributed.checkpoint` writes and reads the tensors, so any number of ranks reads what any other number wrote.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from turnsmith.errors import UsageError

FOLDER = "optimizer"
"""Folder of a checkpoint that holds the optimizer's state."""
SCALES = ".scales-"
"""Part of the names of block scales."""
READ_ERRORS = (OSError, ValueError, KeyError, RuntimeError, EOFError, CheckpointException)
"""Errors of `torch.distributed.checkpoint` for files that are missing or damaged."""


def list_state(model: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, nn.Parameter, Tensor]]:
    """Yield name, weight and tensor of the optimizer's state, such as `model.norm.weight.exp_avg`; nothing before a step."""
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{name}.{key}", parameter, value


@torch.no_grad()
def copy_state(model: nn.Module, optimizer: Optimizer, group: ProcessGroup | None = None) -> dict[str, Tensor]:
    """Copy this rank's part of an optimizer's state to host memory, in float32.

    Blocks of 8-bit moments belong to one rank. Their scales are copied too, for an exact resume on equally many ranks.
    """
    state = {}
    for name, parameter, value in list_state(model, optimizer):
        state[name] = copy_to_host(value, parameter)
        if has_blocks(value):
            local: Any = to_local(value)
            state[name_scales(name, group)] = local.scale.cpu().clone()
    return state


def has_blocks(value: Tensor) -> bool:
    """Return True for an 8-bit moment of torchao, which has a scale for each block of elements."""
    return hasattr(to_local(value), "scale")


def name_scales(name: str, group: ProcessGroup | None) -> str:
    """Name the scales of a moment's blocks on this rank. The name contains the number of ranks."""
    rank, num_ranks = (group.rank(), group.size()) if group else (0, 1)
    return f"{name}{SCALES}{rank}-of-{num_ranks}"


def copy_to_host(value: Tensor, parameter: Tensor) -> Tensor:
    """Copy this rank's part of a tensor to host memory, in float32; a part of the weight's size is sharded as the weight is."""
    local = to_local(value)
    # Quantised moments are converted by `copy_` alone.
    host = torch.empty(local.shape, dtype=torch.float32).copy_(local.detach())
    if not isinstance(parameter, DTensor) or host.shape != parameter.to_local().shape:
        return host
    return DTensor(host, parameter._spec, requires_grad=False)


def to_local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def write_state(folder: Path, state: Mapping[str, Tensor], group: ProcessGroup | None = None) -> None:
    """Write an optimizer's state, on all ranks of a group or in this process. Raises CheckpointException on all ranks."""
    with in_one_process(group):
        dcp.save(dict(state), checkpoint_id=folder, process_group=group, no_dist=group is None)


@torch.no_grad()
def load_state(folder: Path, model: nn.Module, optimizer: Optimizer, group: ProcessGroup | None = None) -> None:
    """Load an optimizer's state, on all ranks of a group or in this process. Raises UsageError if it does not fit the model."""
    try:
        stored = FileSystemReader(folder).read_metadata().state_dict_metadata
        optimizer.state.clear()
        if stored:
            allocate_state(optimizer)
            shapes = {name: tuple(getattr(entry, "size", ())) for name, entry in stored.items()}
            read_state(folder, shapes, model, optimizer, group)
    except READ_ERRORS as error:
        raise UsageError(f"the checkpoint at {folder.parent} does not fit the model: {explain(error)}") from error


def read_state(
    folder: Path,
    stored: Mapping[str, tuple[int, ...]],
    model: nn.Module,
    optimizer: Optimizer,
    group: ProcessGroup | None,
) -> None:
    """Read tensors of the shapes `stored` into an optimizer's state. Raises ValueError for other names or shapes."""
    wanted = {name: value for name, value in copy_state(model, optimizer, group).items() if is_stored(name, stored)}
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    odd = [name for name, _ in shapes.items() ^ stored.items() if name in shapes or SCALES not in name]
    if odd:
        raise ValueError(f"the state of the optimizer differs in {min(odd)}")
    with in_one_process(group):
        dcp.load(wanted, checkpoint_id=folder, process_group=group, no_dist=group is None)
    for name, _, value in list_state(model, optimizer):
        to_local(value).copy_(to_local(wanted[name]))
        if (scales := name_scales(name, group)) in wanted:
            set_blocks(to_local(value), to_local(wanted[name]), wanted[scales])


def is_stored(name: str, stored: Mapping[str, tuple[int, ...]]) -> bool:
    """Return False for block scales that a checkpoint lacks, such as one of another number of ranks."""
    return SCALES not in name or name in stored


def set_blocks(moment: Any, values: Tensor, scales: Tensor) -> None:
    """Set an 8-bit moment to values that were quantised with the scales of its blocks. New scales would round them again."""
    moment.scale.copy_(scales)
    borders = (moment.qmap[1:] + moment.qmap[:-1]) / 2
    shares = values.to(borders.device).view(len(scales), -1) / moment.scale[:, None]
    moment.codes.copy_(torch.bucketize(shares, borders).view_as(moment.codes))


def allocate_state(optimizer: Optimizer) -> None:
    """Let an optimizer allocate its state in its own format, by a step with zero gradients, which keeps the weights."""
    decays = [group["weight_decay"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, decay in zip(optimizer.param_groups, decays, strict=True):
        group["weight_decay"] = decay


@contextmanager
def in_one_process(group: ProcessGroup | None) -> Iterator[None]:
    """Silence the warning that a checkpoint is of one process, in a `with` block, if there is no group."""
    if group:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def explain(error: BaseException) -> str:
    """Describe an error in one line: of an error on several ranks, the cause on the first of them."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    return str(error).strip().partition("\n")[0] or type(error).__name__
