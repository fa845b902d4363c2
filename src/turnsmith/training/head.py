"""Log-probs of given tokens by the output head, computed in tiles so that few logits exist at once.

A tile holds the logits of some tokens for some entries of the vocabulary. The forward pass keeps only the log-sum-exp of each
token's logits. The backward pass computes each tile again (as in Cut Cross-Entropy, arXiv 2411.09009).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from turnsmith.training.shape import CPU_TILE, GPU_TILE

CPU_TOKENS, GPU_TOKENS = 512, 4_096
"""Maximum number of tokens in a tile."""


class HeadLogprobs(torch.autograd.Function):
    """Log-probs of tokens, given hidden states, and weight and bias of the output head. All have the dtype of the weight."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, token_ids: Tensor) -> Tensor:
        """Compute log-probs `[tokens]` from hidden states `[tokens, hidden_size]`, with weight `[vocabulary, hidden_size]`."""
        chosen = hidden.new_zeros(len(hidden))
        # Sums of hundreds of tiles would lose a digit in float32.
        log_sums = hidden.new_full((len(hidden),), -torch.inf, dtype=torch.float64)
        for logits, tokens, entries in compute_tiles(hidden, weight, bias):
            columns, is_here = locate(token_ids[tokens], entries)
            chosen[tokens] = torch.where(is_here, logits.gather(1, columns)[:, 0], chosen[tokens])
            log_sums[tokens] = torch.logaddexp(log_sums[tokens], logits.logsumexp(1))
        ctx.save_for_backward(hidden, weight, bias, token_ids, log_sums.to(hidden.dtype))
        return (chosen - log_sums).to(hidden.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of hidden states, weight and bias, given those of the log-probs."""
        hidden, weight, bias, token_ids, log_sums = ctx.saved_tensors
        inputs = zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)
        of_hidden, of_weight, of_bias = (torch.zeros_like(each) if is_needed else None for each, is_needed in inputs)
        for logits, tokens, entries in compute_tiles(hidden, weight, bias):
            columns, is_here = locate(token_ids[tokens], entries)
            of_logits = logits.sub_(log_sums[tokens, None]).exp_().mul_(-gradient[tokens, None])
            of_logits.scatter_add_(1, columns, (gradient[tokens] * is_here)[:, None])
            if of_hidden is not None:
                of_hidden[tokens].addmm_(of_logits, weight[entries])
            if of_weight is not None:
                of_weight[entries].addmm_(of_logits.t(), hidden[tokens])
            if of_bias is not None:
                of_bias[entries].add_(of_logits.sum(0))
        return of_hidden, of_weight, of_bias, None


def compute_tiles(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Iterator[tuple[Tensor, slice, slice]]:
    """Yield the logits of each tile, `[tokens, entries]`, and the places of its tokens and of its entries of the vocabulary."""
    most_tokens, tile = (GPU_TOKENS, GPU_TILE) if hidden.is_cuda else (CPU_TOKENS, CPU_TILE)
    height = max(1, min(len(hidden), most_tokens))
    width = max(1, tile // height)
    for first in range(0, len(weight), width):
        entries = slice(first, min(first + width, len(weight)))
        for start in range(0, len(hidden), height):
            tokens = slice(start, start + height)
            yield linear(hidden[tokens], weight[entries], None if bias is None else bias[entries]), tokens, entries


def locate(token_ids: Tensor, entries: slice) -> tuple[Tensor, Tensor]:
    """Return each token's column in a tile, `[tokens, 1]`, and True if its id is among the entries of the tile."""
    columns = token_ids - entries.start
    inside = columns.clamp(0, entries.stop - entries.start - 1)
    return inside[:, None], inside == columns
