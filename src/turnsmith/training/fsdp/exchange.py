"""Collectives with gradients, and agreement of all ranks."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup

from turnsmith.errors import TrainingError, TurnsmithError
from turnsmith.training.stopwatch import Stopwatch

T = TypeVar("T")


# torch 2.13 renamed these two functions and deprecated the old names.
_all_gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
_reduce_scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor


class _ExchangeBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, blocks: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return _exchange(blocks, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _exchange(gradient, ctx.group), None


class _GatherBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, block: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return _gather(block, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradients = gradient.contiguous()
        own = gradients.new_empty(len(gradients) // ctx.group.size(), *gradients.shape[1:])
        _reduce_scatter(own, gradients, group=ctx.group)
        return own, None


def _exchange(blocks: Tensor, group: ProcessGroup) -> Tensor:
    # gloo ignores strides, gradients are often not contiguous, and `empty_like` keeps their strides.
    blocks = blocks.contiguous()
    received = torch.empty_like(blocks)
    distributed.all_to_all_single(received, blocks, group=group)
    return received


def _gather(block: Tensor, group: ProcessGroup) -> Tensor:
    gathered = block.new_empty(group.size() * len(block), *block.shape[1:])
    _all_gather(gathered, block.contiguous(), group=group)
    return gathered


def exchange_blocks(blocks: Tensor, group: ProcessGroup) -> Tensor:
    """Send block i to rank i of the group and return the received blocks, in order of rank: `[ranks, …]` in and out."""
    return _ExchangeBlocks.apply(blocks, group)


def gather_blocks(block: Tensor, group: ProcessGroup) -> Tensor:
    """Concatenate the blocks of all ranks of the group: `[size, …]` in, `[ranks × size, …]` out.

    The gradient of a block is the sum of its gradients on all ranks.
    """
    return _GatherBlocks.apply(block, group)


def gather_values(own: Tensor, counts: list[int], group: ProcessGroup) -> Tensor:
    """Concatenate the 1-D tensors of all ranks, of lengths `counts`. Only this rank's own values keep their gradient.

    So if each rank computes the whole loss, the sum of the ranks' gradients is the gradient of that loss.
    """
    # All ranks send equally many values, because uneven gathers fail on gloo.
    padded = own.new_zeros(max(counts))
    padded[: len(own)] = own.detach()
    rows = _gather(padded, group).view(len(counts), -1)
    parts = [row[:count] for row, count in zip(rows, counts, strict=True)]
    parts[distributed.get_rank(group)] = own
    return torch.cat(parts)


def gather_objects(value: Any, group: ProcessGroup | None = None) -> list[Any]:
    """Return the values of all ranks of a group, by default the default group, in order of rank. They are pickled."""
    values = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(values, value, group=group)
    return values


def agree(compute: Callable[[], T], device: torch.device, stopwatch: Stopwatch) -> T:
    """Call `compute` on each rank and return its result; if it raises on any rank, raise the first rank's error on all.

    `compute` must contain no collective, in which the other ranks would wait for a rank that failed. The stopwatch adds up the
    time of `waiting` for other ranks.
    """
    result, error = None, None
    try:
        result = compute()
    except Exception as fault:
        error = fault if isinstance(fault, TurnsmithError) else TrainingError(f"{type(fault).__name__}: {fault}")
        error.__cause__ = fault.__cause__ if error is fault else fault
    with stopwatch.measure("waiting"):
        has_failed = torch.tensor(error is not None, dtype=torch.int32, device=device)
        distributed.all_reduce(has_failed, distributed.ReduceOp.MAX)
    if has_failed.item():
        raise next(each for each in gather_objects(error) if each)
    return cast(T, result)
