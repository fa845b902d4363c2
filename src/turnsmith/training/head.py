"""Log-probs of given tokens by the output head, computed in tiles so that few logits exist at once.

A tile holds the logits of some tokens for some entries of the vocabulary. The forward pass keeps only the log-sum-exp of each
token's logits. The backward pass computes each tile again (as in Cut Cross-Entropy, arXiv 2411.09009).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CPU_TILE, GPU_TILE = 2**18, 2**25
"""Maximum number of logits in a tile: 1 MiB on a CPU, which fits its cache, and 128 MiB on a GPU."""
CPU_TOKENS, GPU_TOKENS = 512, 4_096
"""Maximum number of tokens in a tile."""

Tile = tuple[Tensor, slice, slice]
"""Logits `[tokens, entries]`, valid until the next tile is computed; places of the tokens, and of the entries."""


class HeadLogprobs(torch.autograd.Function):
    """Log-probs of tokens, given hidden states, and weight and bias of the output head. All tensors are float32."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, token_ids: Tensor) -> Tensor:
        """Compute log-probs `[tokens]` from hidden states `[tokens, hidden_size]`, with weight `[vocabulary, hidden_size]`."""
        highest, sums = hidden.new_full((len(hidden),), -torch.inf), hidden.new_zeros(len(hidden))
        chosen = torch.empty_like(sums)
        for logits, tokens, entries in compute_tiles(hidden, weight, bias):
            columns, is_here = _locate(token_ids[tokens], logits, entries)
            chosen[tokens] = torch.where(is_here, logits.gather(1, columns)[:, 0], chosen[tokens])
            _add_exponentials(logits, highest[tokens], sums[tokens])
        ctx.save_for_backward(hidden, weight, bias, token_ids, highest + sums.log())
        return chosen - highest - sums.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of hidden states, weight and bias, given those of the log-probs."""
        hidden, weight, bias, token_ids, log_sums = ctx.saved_tensors
        of_hidden = torch.zeros_like(hidden)
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias) if ctx.needs_input_grad[2] else None
        for logits, tokens, entries in compute_tiles(hidden, weight, bias):
            of_logits = logits.sub_(log_sums[tokens, None]).exp_().mul_(-gradient[tokens, None])
            columns, is_here = _locate(token_ids[tokens], logits, entries)
            of_logits.scatter_add_(1, columns, (gradient[tokens] * is_here)[:, None])
            of_hidden[tokens].addmm_(of_logits, weight[entries])
            if of_weight is not None:
                of_weight[entries].addmm_(of_logits.t(), hidden[tokens])
            if of_bias is not None:
                of_bias[entries].add_(of_logits.sum(0))
        return of_hidden, of_weight, of_bias, None


def compute_tiles(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[Tile]:
    """Compute all logits, tile by tile, in one buffer."""
    on_gpu = hidden.is_cuda
    height = max(1, min(len(hidden), GPU_TOKENS if on_gpu else CPU_TOKENS))
    width = max(1, min(len(weight), (GPU_TILE if on_gpu else CPU_TILE) // height))
    buffer = hidden.new_empty(height * width)
    for first in range(0, len(weight), width):
        entries = slice(first, first + width)
        for start in range(0, len(hidden), height):
            tokens = slice(start, start + height)
            rows, columns = hidden[tokens], weight[entries].t()
            logits = buffer[: len(rows) * columns.size(1)].view(len(rows), -1)
            torch.mm(rows, columns, out=logits)
            if bias is not None:
                logits.add_(bias[entries])
            yield logits, tokens, entries


def _locate(token_ids: Tensor, logits: Tensor, entries: slice) -> tuple[Tensor, Tensor]:
    """Return each token's column in a tile, `[tokens, 1]`, and True if its id is among the entries of the tile."""
    columns = token_ids - entries.start
    inside = columns.clamp(0, logits.size(1) - 1)
    return inside[:, None], inside == columns


def _add_exponentials(logits: Tensor, highest: Tensor, sums: Tensor) -> None:
    """Add exp(logit − highest logit) of each token to `sums`, in place; `highest` takes the new highest logits into account."""
    higher = torch.maximum(highest, logits.amax(1))
    sums.mul_((highest - higher).exp()).add_(logits.sub_(higher[:, None]).exp_().sum(1))
    highest.copy_(higher)
