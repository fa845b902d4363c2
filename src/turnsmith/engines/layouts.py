"""What packed tokens of an engine's step see: all keys of their own sequence up to their own, in blocks of the cache."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.engines.cache import BlockStore, Span, place_new, position
from turnsmith.engines.decoding import Decoding

MAX_MASK = 2**24
"""Entries of the mask of one call of attention; a longer prefill goes in several."""


class BlockLayout:
    """Each packed token sees the keys of its own sequence up to itself; wanted is the last token of each span."""

    def __init__(self, store: BlockStore, spans: list[Span]) -> None:
        """`spans` lie in the order of the packed tokens: single tokens first, then the longer ones."""
        self._store = store
        self._places = place_new(spans, store.device)
        self.position_ids = position(spans, store.device)
        self.selected = torch.tensor([span.length for span in spans], device=store.device).cumsum(0) - 1
        singles = [span for span in spans if span.length == 1]
        decoding: list[Part] = [Decoding(singles, store.device)] if singles else []
        self._parts = [*decoding, *(Prefill(span, store.device) for span in spans[len(singles) :])]
        lasts = [Span(span.blocks, span.end - 1, 1) for span in spans]
        self._last_parts = decoding if len(singles) == len(spans) else [Decoding(lasts, store.device)]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep the new keys and values, then attend, part by part, with all tokens or the last of each span."""
        stores = self._store.write(layer, self._places, key[0], value[0])
        parts = self._parts if query.shape[2] == key.shape[2] else self._last_parts
        queries = query[0].split([part.num_tokens for part in parts], dim=1)
        return torch.cat([part.attend(q, *stores, scaling) for part, q in zip(parts, queries, strict=True)])[None]


class Part(Protocol):
    """Neighbouring packed tokens that one call attends with, over the blocks of a layer; shapes as in `Decoding.attend`."""

    num_tokens: int

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor: ...


class Prefill:
    """Several new tokens of one sequence: causal among themselves, all keys before them visible."""

    def __init__(self, span: Span, device: torch.device) -> None:
        self.num_tokens = span.length
        self._span = span
        self._seen = torch.tensor(span.seen, device=device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        keys, values = self._gather(keys), self._gather(values)
        query, step = query.to(values.dtype), max(1, MAX_MASK // self._span.end)
        firsts = range(self._span.start, self._span.end, step)
        parts = zip(firsts, query.split(step, dim=1), strict=True)
        return torch.cat([attend_from(first, q, keys, values, scaling) for first, q in parts])

    def _gather(self, store: Tensor) -> Tensor:
        """Its own keys or values of a layer, `[heads, tokens, head_dim]`."""
        return store[self._seen].transpose(0, 1).flatten(1, 2)[:, : self._span.end]


def attend_from(first: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
    """Causal attention of queries `[heads, tokens, head_dim]` from position `first` on, to `[tokens, heads, head_dim]`."""
    end = first + query.shape[1]
    output = scaled_dot_product_attention(
        query[None],
        keys[None, :, :end],
        values[None, :, :end],
        attn_mask=None if first == 0 else causal_mask(first, end, query),
        is_causal=first == 0,
        scale=scaling,
        enable_gqa=True,
    )
    return output[0].transpose(0, 1)


def causal_mask(first: int, end: int, like: Tensor) -> Tensor:
    """Additive mask `[end - first, end]`: each token sees the positions up to its own."""
    return like.new_full((end - first, end), float("-inf")).triu_(first + 1)
