"""Attention on a CPU by several calls, merged where they have the same queries.

The log-sum-exp of a call's scores gives its share of the merged output. In the backward pass each call needs only the merged
output and log-sum-exp, as in ring attention (arXiv 2310.01889).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class AttentionCall(NamedTuple):
    """Attention of adjacent queries to adjacent keys."""

    queries: range
    """Places in the tensor of queries, which may be a part of a row."""
    keys: range
    """Places in the tensors of keys and values."""
    is_causal: bool
    """True if query and key of the same place in the ranges are the same token; False if each query attends to all keys."""


attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
attend_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class MergedAttention(torch.autograd.Function):
    """Attention of each query to the keys of all its calls. The first call of each query must be the causal one."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, calls: list[AttentionCall], scaling: float | None
    ) -> Tensor:
        """Compute attention: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        output = torch.empty_like(query.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        log_sums = output.new_empty(output.shape[:-1], dtype=torch.promote_types(output.dtype, torch.float32))
        for queries, keys, is_causal in calls:
            part = attend(cut(query, queries), cut(key, keys), cut(value, keys), is_causal=is_causal, scale=scaling)
            (put if is_causal else merge)(cut(output, queries), cut(log_sums, queries), *part)
        ctx.save_for_backward(query, key, value, output, log_sums)
        ctx.calls, ctx.scaling = calls, scaling
        return output.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of queries, keys and values: sums over all calls."""
        query, key, value, output, log_sums = ctx.saved_tensors
        gradient = gradient.transpose(1, 2)
        sums = [torch.zeros_like(tensor) for tensor in (query, key, value)]
        for queries, keys, is_causal in ctx.calls:
            ours = (cut(tensor, queries) for tensor in (gradient, query))
            theirs = (cut(tensor, keys) for tensor in (key, value))
            merged = (cut(tensor, queries) for tensor in (output, log_sums))
            parts = attend_backward(*ours, *theirs, *merged, 0.0, is_causal, scale=ctx.scaling)
            for total, part, tokens in zip(sums, parts, (queries, keys, keys), strict=True):
                cut(total, tokens).add_(part)
        return *sums, None, None


def cut(tensor: Tensor, tokens: range) -> Tensor:
    """Return a view of adjacent tokens: `[1, heads, tokens, …]` in and out."""
    return tensor.narrow(2, tokens.start, len(tokens))


def put(output: Tensor, log_sums: Tensor, part: Tensor, part_log_sums: Tensor) -> None:
    """Write the results of the first call of some queries."""
    output.copy_(part)
    log_sums.copy_(part_log_sums)


def merge(output: Tensor, log_sums: Tensor, part: Tensor, part_log_sums: Tensor) -> None:
    """Merge the results of a further call of some queries into `output` and `log_sums`, in place."""
    share = (part_log_sums - log_sums).sigmoid()[..., None]
    output.lerp_(part, share.to(output.dtype))
    torch.logaddexp(log_sums, part_log_sums, out=log_sums)
