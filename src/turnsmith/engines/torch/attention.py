"""Attention function for transformers models that lets a layout object compute the attention of packed tokens.

A model loaded with `attn_implementation=NAME` builds no mask and passes the argument `layout=` to every attention layer. The
trainer's layout holds packed samples; the engine's layout reads blocks of cached keys and values.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

NAME = "turnsmith"


class Layout(Protocol):
    """Layout of sequences packed end to end: gives their tokens' positions, computes the attention within each sequence."""

    position_ids: Tensor
    """Position of each token in its own sequence, `[tokens]`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention of one layer: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""


class Boundaries:
    """Offsets of sequences packed end to end, in the format of variable-length attention kernels."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.offsets = torch.tensor([0, *lengths], device=device).cumsum(0).int()
        self.longest = max(lengths)


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Return True if PyTorch has a variable-length attention kernel for the device and dtype."""
    return device.type == "cuda" and dtype.itemsize == 2


def attend_packed(
    query: Tensor, key: Tensor, value: Tensor, queries: Boundaries, keys: Boundaries, scaling: float | None
) -> Tensor:
    """Run the variable-length attention kernel, causal, with the last query of each sequence aligned to its last key.

    Input and output are `[tokens, heads, head_dim]`.
    """
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
    """Compute the attention of one layer by the layout. Return the output, and None in place of attention weights."""
    return layout.attend(module.layer_idx, query, key, value, scaling), None  # type: ignore[arg-type]


AttentionInterface.register(NAME, attend)


def hidden_states(decoder: Any, token_ids: Tensor, layout: Layout) -> Tensor:
    """Compute final hidden states `[tokens, hidden_size]` of packed tokens by the decoder's forward, hooks included."""
    position_ids = layout.position_ids[None]
    output = decoder(input_ids=token_ids[None], position_ids=position_ids, layout=layout, use_cache=False)
    return output.last_hidden_state[0]
