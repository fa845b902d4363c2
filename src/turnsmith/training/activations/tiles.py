"""Tiled MLPs: the tokens pass an MLP in tiles, so that the wide activations of only one tile exist at a time.

The backward pass recomputes each tile and differentiates it at once (ALST, arXiv 2506.13996, section 3.1).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from turnsmith.errors import UsageError

DECODE_TOKENS = 1_024
"""Number of tokens up to which a pass without gradients is not tiled: a decode step has little memory to save."""


def tile_mlps(model: nn.Module, num_tiles: int) -> None:
    """Let the MLP of each layer process its tokens in `num_tiles` tiles. Raises UsageError if the layers have no `mlp`."""
    mlps = [module for name, module in model.named_modules() if name.rpartition(".")[2] == "mlp"]
    if not mlps:
        raise UsageError(
            f"trainer.mlp_tiles cannot find the MLPs of {type(model).__name__}, whose layers have no attribute `mlp`: set it to 1"
        )
    for mlp in mlps:
        mlp.forward = partial(forward_in_tiles, mlp.forward, mlp, num_tiles)


def forward_in_tiles(forward: Callable[[Tensor], Tensor], mlp: nn.Module, num_tiles: int, hidden: Tensor) -> Tensor:
    """Compute an MLP on hidden states `[1, tokens, hidden_size]` in tiles of tokens; return the same shape."""
    if not torch.is_grad_enabled():
        is_short = hidden.size(-2) <= DECODE_TOKENS
        return forward(hidden) if is_short else run_tiles(forward, split(hidden, num_tiles))
    # An enclosing checkpoint recomputes until it has all saved tensors. `SavedInput` saves before the tiles are computed, so that
    # the checkpoint need not compute them again.
    saved = SavedInput.apply(hidden)
    weights = [weight for weight in mlp.parameters() if weight.requires_grad]
    return TiledMLP.apply(forward, num_tiles, saved.grad_fn, saved, *weights)


def split(hidden: Tensor, num_tiles: int) -> tuple[Tensor, ...]:
    """Split the tokens into at most `num_tiles` tiles."""
    return hidden.split(max(1, math.ceil(hidden.size(-2) / num_tiles)), dim=-2)


def run_tiles(forward: Callable[[Tensor], Tensor], tiles: Sequence[Tensor]) -> Tensor:
    """Compute an MLP tile by tile and join the outputs. Raises UsageError if the output is not one tensor."""
    outputs = [forward(tile) for tile in tiles]
    if not all(isinstance(output, Tensor) for output in outputs):
        raise UsageError(
            "trainer.mlp_tiles needs MLPs that return one tensor, but those of this model return more: set it to 1"
        )
    return torch.cat(outputs, dim=-2)


class SavedInput(Function):
    """Identity that saves its input for the backward pass of `TiledMLP`."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor) -> Tensor:
        ctx.save_for_backward(hidden)
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class TiledMLP(Function):
    """MLP whose backward pass computes the tiles again, and the gradient of each tile before the next tile."""

    @staticmethod
    def forward(
        ctx: Any, forward: Callable[[Tensor], Tensor], num_tiles: int, saved: Any, hidden: Tensor, *weights: Tensor
    ) -> Tensor:
        kind = hidden.device.type
        ctx.autocast = partial(
            torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind)
        )
        ctx.forward, ctx.num_tiles, ctx.saved, ctx.weights = forward, num_tiles, saved, weights
        return run_tiles(forward, split(hidden, num_tiles))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        [hidden] = ctx.saved.saved_tensors
        to_hidden, to_weights = torch.empty_like(hidden), [torch.zeros_like(weight) for weight in ctx.weights]
        parts = zip(*(split(tensor, ctx.num_tiles) for tensor in (hidden, gradient, to_hidden)), strict=True)
        with torch.enable_grad(), ctx.autocast():
            for tile, slope, place in parts:
                inputs = [tile.detach().requires_grad_(), *ctx.weights]
                slopes = torch.autograd.grad(ctx.forward(inputs[0]), inputs, slope, materialize_grads=True)
                place.copy_(slopes[0])
                torch._foreach_add_(to_weights, slopes[1:])
        return None, None, None, to_hidden, *to_weights
