"""Keys and values of many episodes in slots, and the attention of packed tokens over them.

One forward pass sees spans of new tokens of several slots, end to end in one row: a span of one token is a decode step, a
longer one a prefill. Nothing is padded but the keys of neighbouring slots that are read together.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

CALL_TOKENS = 128
"""Keys that attention reads in the time of one more call; rows share a call where padding costs less."""


class Span(NamedTuple):
    """New tokens of one slot: `length` of them, the first at position `start`."""

    slot: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class SlotCache:
    """Keys and values of every layer, each `[slots, heads, tokens, head_dim]`, made when a layer first writes."""

    def __init__(self, num_slots: int, max_tokens: int, device: torch.device) -> None:
        self.num_slots = num_slots
        self.max_tokens = max_tokens
        self.device = device
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, layer: int, places: "Places", key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values `[heads, tokens, head_dim]` to their places; returns all of the layer."""
        if layer not in self._layers:
            self._layers[layer] = self._room(key), self._room(value)
        for store, new in zip(self._layers[layer], (key, value), strict=True):
            store.flatten(0, 2).index_copy_(0, places.of(len(new)), new.flatten(0, 1))
        return self._layers[layer]

    def _room(self, like: Tensor) -> Tensor:
        # Not `empty`: masked keys weigh nothing, but nothing times a stray NaN is NaN.
        return like.new_zeros(self.num_slots, len(like), self.max_tokens, like.shape[2])

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy positions `[start, end)` of one slot to another, all layers."""
        for stores in self._layers.values():
            for store in stores:
                store[target, :, start:end] = store[source, :, start:end]


class Places:
    """Where the new tokens of some spans belong in a flattened store."""

    def __init__(self, cache: SlotCache, spans: list[Span]) -> None:
        self._width = cache.max_tokens
        self._slots = torch.tensor([span.slot for span in spans for _ in range(span.length)], device=cache.device)
        positions = [position for span in spans for position in range(span.start, span.end)]
        self.positions = torch.tensor(positions, device=cache.device)
        self._by_heads: dict[int, Tensor] = {}

    def of(self, num_heads: int) -> Tensor:
        """Rows of a store `[slots * heads * tokens, head_dim]`, `[heads * tokens]`; computed once per number of heads."""
        if num_heads not in self._by_heads:
            heads = torch.arange(num_heads, device=self.positions.device)[:, None]
            self._by_heads[num_heads] = ((self._slots * num_heads + heads) * self._width + self.positions).flatten()
        return self._by_heads[num_heads]


class SlotLayout:
    """Each packed token sees the keys of its own slot up to itself; wanted is the last token of each span."""

    def __init__(self, cache: SlotCache, spans: list[Span]) -> None:
        """`spans` lie in the order of the packed tokens: single tokens first, by slot, then the longer ones."""
        self._cache = cache
        self._places = Places(cache, spans)
        self.position_ids = self._places.positions
        self.selected = torch.tensor([span.length for span in spans], device=cache.device).cumsum(0) - 1
        singles = [span for span in spans if span.length == 1]
        groups = make_groups(singles, cache.device)
        self._parts: list[Part] = [*groups, *(Prefill(span, cache.device) for span in spans[len(singles) :])]
        lasts = [Span(span.slot, span.end - 1, 1) for span in spans]
        self._last_parts = groups if len(singles) == len(spans) else make_groups(lasts, cache.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep the new keys and values, then attend, part by part."""
        stores = self._cache.write(layer, self._places, key[0], value[0])
        return attend_parts(self._parts, query[0], stores, scaling)

    def attend_selected(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep all new keys and values, then attend with the last token of each span."""
        stores = self._cache.write(layer, self._places, key[0], value[0])
        return attend_parts(self._last_parts, query[0], stores, scaling)


class Part(Protocol):
    """Neighbouring packed tokens that one call attends with."""

    num_tokens: int

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Queries `[heads, tokens, head_dim]` over the cache of a layer, to `[tokens, heads, head_dim]`."""


def attend_parts(parts: Sequence[Part], query: Tensor, stores: tuple[Tensor, Tensor], scaling: float | None) -> Tensor:
    """Queries `[heads, tokens, head_dim]`, part by part, to `[1, tokens, heads, head_dim]`."""
    queries = query.split([part.num_tokens for part in parts], dim=1)
    return torch.cat([part.attend(q, *stores, scaling) for part, q in zip(parts, queries, strict=True)])[None]


class Group:
    """Single tokens of neighbouring slots, attended to in one call over views of the cache."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = len(spans)
        self._slots = slice(spans[0].slot, spans[-1].slot + 1)
        ends = [span.end for span in spans]
        self._end = max(ends)
        self._mask = None if min(ends) == self._end else _end_mask(ends, self._end, device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        keys, values = keys[self._slots, :, : self._end], values[self._slots, :, : self._end]
        # The query heads that share a key head go as its tokens, so no key is repeated.
        grouped = query.transpose(0, 1).reshape(self.num_tokens, keys.shape[1], -1, query.shape[2])
        mask = None if self._mask is None else self._mask.to(query.dtype)
        output = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
        return output.reshape(self.num_tokens, -1, query.shape[2])


class Prefill:
    """Several new tokens of one slot: causal among themselves, all keys before them visible."""

    def __init__(self, span: Span, device: torch.device) -> None:
        self.num_tokens = span.length
        self._span = span
        self._mask = None if span.start == 0 else _causal_mask(span, device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        slot, end = self._span.slot, self._span.end
        output = scaled_dot_product_attention(
            query.unsqueeze(0),
            keys[slot : slot + 1, :, :end],
            values[slot : slot + 1, :, :end],
            attn_mask=None if self._mask is None else self._mask.to(query.dtype),
            is_causal=self._mask is None,
            scale=scaling,
            enable_gqa=True,
        )
        return output[0].transpose(0, 1)


def make_groups(spans: list[Span], device: torch.device) -> list[Group]:
    return [Group(group, device) for group in group_neighbours(spans)]


def group_neighbours(spans: list[Span]) -> list[list[Span]]:
    """Cut single-token spans into runs of adjacent slots whose padding costs less than a call; the order stays."""
    groups: list[list[Span]] = []
    longest = 0
    for span in spans:
        padding = max(longest - span.end, (span.end - longest) * len(groups[-1]) if groups else 0)
        if groups and span.slot == groups[-1][-1].slot + 1 and padding <= CALL_TOKENS:
            groups[-1].append(span)
            longest = max(longest, span.end)
        else:
            groups.append([span])
            longest = span.end
    return groups


def _end_mask(ends: list[int], width: int, device: torch.device) -> Tensor:
    """Additive mask `[rows, 1, 1, width]` that hides what lies at or past each row's end."""
    hidden = torch.arange(width, device=device) >= torch.tensor(ends, device=device)[:, None]
    return torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))[:, None, None]


def _causal_mask(span: Span, device: torch.device) -> Tensor:
    """Additive mask `[length, end]`: each new token sees the positions up to its own."""
    return torch.full((span.length, span.end), float("-inf"), device=device).triu_(span.start + 1)
