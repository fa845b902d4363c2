"""Attention in a step of the engine. Tokens of several sequences are packed; each attends to its own sequence's cached keys."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.engines.torch.attention import Boundaries, attend_packed, has_kernel
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, BlockStore, Span
from turnsmith.engines.torch.compiled import CompiledDecoding, can_compile
from turnsmith.engines.torch.decoding import Decoding


class Packed:
    """Attention of all packed tokens by one variable-length kernel, with keys copied from their cache blocks."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = sum(span.length for span in spans)
        self._queries = Boundaries([span.length for span in spans], device)
        self._keys = Boundaries([span.end for span in spans], device)
        # The device expands blocks to token indices, which are many.
        blocks = torch.tensor([block for span in spans for block in span.seen], device=device)
        num_seen = torch.tensor([count for span in spans for count in span.fills], device=device)
        rows, self._offsets = (torch.arange(BLOCK_TOKENS, device=device) < num_seen[:, None]).nonzero(as_tuple=True)
        self._blocks = blocks[rows]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of all packed tokens, from queries `[heads, tokens, head_dim]` to `[tokens, heads, head_dim]`."""
        query = query.transpose(0, 1).to(values.dtype).contiguous()
        keys, values = (store[self._blocks, :, self._offsets] for store in (keys, values))
        return attend_packed(query, keys, values, self._queries, self._keys, scaling)


class Prefill:
    """Attention of several new tokens of one sequence to the sequence's cached keys and to earlier new tokens."""

    def __init__(self, span: Span, device: torch.device) -> None:
        self.num_tokens = span.length
        self._end = span.end
        self._blocks = torch.tensor(span.seen, device=device)
        hidden = torch.full((span.length, span.end), float("-inf"), device=device).triu(span.start + 1)
        self._mask = hidden if span.start else None

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of the new tokens, from queries `[heads, tokens, head_dim]` to `[tokens, heads, head_dim]`."""
        stores = (store[self._blocks].transpose(0, 1).flatten(1, 2) for store in (keys, values))
        keys, values = (store[None, :, : self._end] for store in stores)
        output = scaled_dot_product_attention(
            query[None].to(values.dtype),
            keys,
            values,
            attn_mask=None if self._mask is None else self._mask.to(values.dtype),
            is_causal=self._mask is None,
            scale=scaling,
            enable_gqa=True,
        )
        return output[0].transpose(0, 1)


Part = CompiledDecoding | Decoding | Packed | Prefill
"""Attention of some adjacent packed tokens, computed in one call per layer."""

MakeParts = Callable[[list[Span], torch.device], list[Part]]
"""Function that splits the spans of a step into parts, each computed by one attention call, in order."""


def choose_parts(device: torch.device, dtype: torch.dtype) -> MakeParts:
    """Choose the fastest attention implementation for a device and the dtype of the keys."""
    if has_kernel(device, dtype):
        return make_packed_part
    return partial(make_parts, CompiledDecoding if can_compile(device, dtype) else Decoding)


def make_packed_part(spans: list[Span], device: torch.device) -> list[Part]:
    """Make one attention part for all spans."""
    return [Packed(spans, device)]


def make_parts(decoding: type[CompiledDecoding | Decoding], spans: list[Span], device: torch.device) -> list[Part]:
    """Make one attention part for all decode steps together, and one for each longer span."""
    singles = [span for span in spans if span.length == 1]
    together: list[Part] = [decoding(singles, device)] if singles else []
    return [*together, *(Prefill(span, device) for span in spans[len(singles) :])]


class BlockLayout:
    """Attention layout of one step: each packed token attends to its own sequence's cached tokens, itself included."""

    position_ids: Tensor
    selected: Tensor
    """Index of each span's last token among the packed tokens, `[spans]`; the model's last layer computes only these tokens."""

    def __init__(self, store: BlockStore, spans: list[Span], make: MakeParts) -> None:
        """Prepare the layout of a step. `spans` must be in the order of the packed tokens, with spans of one token first."""
        self._store = store
        positions = [np.arange(span.start, span.end) for span in spans]
        blocks = [np.array(span.blocks)[each // BLOCK_TOKENS] for span, each in zip(spans, positions, strict=True)]
        self.position_ids = torch.from_numpy(np.concatenate(positions)).to(store.device)
        self._places = torch.from_numpy(np.concatenate(blocks)).to(store.device), self.position_ids % BLOCK_TOKENS
        self.selected = torch.tensor([span.length for span in spans], device=store.device).cumsum(0) - 1
        lasts = [Span(span.blocks, span.end - 1, 1) for span in spans]
        self._parts = make(spans, store.device)
        self._last_parts = self._parts if lasts == spans else make(lasts, store.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Store a layer's new keys and values, then compute attention of all tokens, or in the last layer of selected tokens."""
        stores = self._store.write(layer, self._places, key[0], value[0])
        parts = self._parts if query.shape[2] == key.shape[2] else self._last_parts
        queries = query[0].split([part.num_tokens for part in parts], dim=1)
        return torch.cat([part.attend(q, *stores, scaling) for part, q in zip(parts, queries, strict=True)])[None]
