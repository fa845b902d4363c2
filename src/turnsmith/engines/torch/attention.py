"""Attention function for transformers models that lets a layout object compute the attention of packed tokens.

A model loaded with `attn_implementation=NAME` builds no mask and passes the argument `layout=` to every attention layer. The
trainer's layout holds packed samples; the engine's layout reads blocks of cached keys and values.
"""

from inspect import signature
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

from turnsmith.engines.torch.transfer import send

NAME = "turnsmith"

PARAMETERS = signature(varlen_attn).parameters
HAS_PAGES = "block_table" in PARAMETERS
"""True if the kernel reads cached keys in place (torch 2.12); torch 2.11 reads only adjacent keys."""
GROUPED: dict[str, Any] = {"enable_gqa": True} if "enable_gqa" in PARAMETERS else {}
"""Option that allows fewer heads of keys than of queries; the kernel of torch 2.11 always allows them."""
UNSPLIT: dict[str, Any] = {"num_splits": 1} if "num_splits" in PARAMETERS else {}
"""Option that sums each sequence's keys in one order, whatever other sequences the call has."""
CAUSAL, ALL_KEYS = (-1, 0), (-1, -1)
"""Windows of keys before and after a query's own position; −1 means no bound."""


class Layout(Protocol):
    """Layout of sequences packed end to end: gives their tokens' positions, computes the attention within each sequence."""

    position_ids: Tensor
    """Position of each token in its own sequence, `[tokens]`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention of one layer: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""


class Boundaries:
    """Offsets of sequences packed end to end, in the format of variable-length attention kernels."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.offsets = send([np.cumsum([0, *lengths])], device)[0].int()
        self.lengths = self.offsets.diff()
        self.longest = max(lengths)


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Return True if PyTorch has a variable-length attention kernel for the device and dtype: 16 bits, NVIDIA Ampere or newer."""
    return device.type == "cuda" and dtype.itemsize == 2 and torch.cuda.get_device_capability(device) >= (8, 0)


def expand_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat the heads of keys and values `[…, heads, tokens, head_dim]` on CUDA until there are as many as of queries.

    For fewer heads of keys, `scaled_dot_product_attention` in float32 on CUDA has only an implementation of quadratic memory.
    """
    if query.device.type != "cuda":
        return key, value
    num_copies = query.shape[-3] // key.shape[-3]
    return key.repeat_interleave(num_copies, -3), value.repeat_interleave(num_copies, -3)


def attend_packed(
    query: Tensor, key: Tensor, value: Tensor, queries: Boundaries, keys: Boundaries, scaling: float | None
) -> Tensor:
    """Run the variable-length attention kernel, causal, with the last query of each sequence aligned to its last key.

    Input and output are `[tokens, heads, head_dim]`.
    """
    lengths = queries.offsets, keys.offsets, queries.longest, keys.longest
    output = varlen_attn(query, key, value, *lengths, scale=scaling, window_size=CAUSAL, **GROUPED)
    assert isinstance(output, Tensor)
    return output


def attend_in_blocks(
    query: Tensor,
    blocks: tuple[Tensor, Tensor],
    queries: Boundaries,
    keys: Boundaries,
    table: Tensor,
    scaling: float | None,
) -> Tensor:
    """Run the same kernel on keys and values in cache blocks `[blocks, heads, block_tokens, head_dim]`, without copying them.

    `table` holds the numbers of each sequence's blocks, int32, `[sequences, most blocks]`. No gradients.
    """
    key, value = (tensor.transpose(1, 2) for tensor in blocks)
    lengths = queries.offsets, keys.offsets, queries.longest, keys.longest
    # A single query sees all keys; without a causal window the kernel reads keys once for all query heads that share them.
    window = ALL_KEYS if queries.longest == 1 else CAUSAL
    options: dict[str, Any] = {"seqused_k": keys.lengths, "block_table": table, "window_size": window}
    output = varlen_attn(query, key, value, *lengths, scale=scaling, **options | GROUPED | UNSPLIT)
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
