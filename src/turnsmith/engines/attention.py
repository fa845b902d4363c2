"""The one attention that our models run with: the layout of the batch answers.

A model loaded with `attn_implementation=NAME` builds no mask of its own and hands `layout=` through its forward to every
attention layer. The trainer's layout is packed samples, the engine's is blocks of kept keys and values.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

NAME = "turnsmith"


class Layout(Protocol):
    """Tokens that lie end to end in one row: where each belongs, and what it sees."""

    position_ids: Tensor
    """Position of each token in its own sequence, `[tokens]`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Causal attention of one layer: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""


class Boundaries:
    """Where sequences that lie end to end begin and end, as kernels for sequences of different lengths ask for it."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.offsets = torch.tensor([0, *lengths], device=device).cumsum(0).int()
        self.longest = max(lengths)


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Is there one kernel for sequences of different lengths?"""
    return device.type == "cuda" and dtype.itemsize == 2


def attend_packed(
    query: Tensor, key: Tensor, value: Tensor, queries: Boundaries, keys: Boundaries, scaling: float | None
) -> Tensor:
    """Attention by that kernel, causal from the end of each sequence: `[tokens, heads, head_dim]` in and out."""
    lengths = queries.offsets, keys.offsets, queries.longest, keys.longest
    output = varlen_attn(query, key, value, *lengths, scale=scaling, window_size=(-1, 0), enable_gqa=True)
    assert isinstance(output, Tensor)
    return output


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout,
    scaling: float | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer; returns the output of the layout, and no attention weights."""
    return layout.attend(module.layer_idx, query, key, value, scaling), None  # type: ignore[arg-type]


AttentionInterface.register(NAME, attend)


def hidden_states(decoder: Any, token_ids: Tensor, layout: Layout) -> Tensor:
    """Final hidden states `[tokens, hidden_size]` by a decoder's own forward, so that hooks on its modules fire."""
    position_ids = layout.position_ids[None]
    output = decoder(input_ids=token_ids[None], position_ids=position_ids, layout=layout, use_cache=False)
    return output.last_hidden_state[0]
