"""Keys and values of many episodes in slots, and the attention of packed tokens over them.

One forward pass sees spans of new tokens of several slots, end to end in one row: a span of one token is a decode step, a
longer one a prefill. Nothing is padded but the keys of neighbouring slots that are read together.
"""

from dataclasses import dataclass
from typing import NamedTuple

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


@dataclass(frozen=True)
class Shape:
    """Sizes of the cache; `num_slots * max_tokens` keys and as many values per layer."""

    num_layers: int
    num_slots: int
    max_tokens: int
    num_heads: int
    head_dim: int


class SlotCache:
    """Preallocated keys and values, `[layers, 2, slots, tokens, heads, head_dim]`."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: torch.device) -> None:
        self.shape = shape
        size = (shape.num_layers, 2, shape.num_slots, shape.max_tokens, shape.num_heads, shape.head_dim)
        # Not `empty`: masked keys weigh nothing, but nothing times a stray NaN is NaN.
        self._store = torch.zeros(size, dtype=dtype, device=device)
        self._layers = [(layer[0].transpose(1, 2), layer[1].transpose(1, 2)) for layer in self._store]
        self._flat = [(layer[0].flatten(0, 1), layer[1].flatten(0, 1)) for layer in self._store]

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer, views of shape `[slots, heads, tokens, head_dim]`."""
        return self._layers[index]

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values `[tokens, heads, head_dim]` to places `slot * max_tokens + position`."""
        flat_keys, flat_values = self._flat[layer]
        flat_keys.index_copy_(0, places, keys)
        flat_values.index_copy_(0, places, values)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Copy positions `[start, end)` of one slot to another, all layers."""
        self._store[:, :, target, start:end] = self._store[:, :, source, start:end]


class SlotLayout:
    """Says which keys each packed token sees: those of its own slot up to itself."""

    def __init__(self, cache: SlotCache, spans: list[Span]) -> None:
        """`spans` lie in the order of the packed tokens: single tokens first, by slot, then the longer ones."""
        self._cache = cache
        self._device = cache.layer(0)[0].device
        self._places = self._index([span.slot * cache.shape.max_tokens for span in spans], spans)
        self._num_single = sum(span.length == 1 for span in spans)
        self._groups = [Group(group, self._device) for group in group_neighbours(spans[: self._num_single])]
        self._prefills = [Prefill(span, self._device) for span in spans[self._num_single :]]
        self.position_ids = self._index([0] * len(spans), spans).unsqueeze(0)

    def _index(self, offsets: list[int], spans: list[Span]) -> Tensor:
        """Offset plus position of each packed token."""
        places = [o + p for o, span in zip(offsets, spans, strict=True) for p in range(span.start, span.end)]
        return torch.tensor(places, device=self._device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep the new keys and values, then attend, span by span; all `[1, heads, tokens, head_dim]`."""
        self._cache.write(layer, self._places, key[0].transpose(0, 1), value[0].transpose(0, 1))
        keys, values = self._cache.layer(layer)
        parts = [*self._groups, *self._prefills]
        queries = query.split([part.num_tokens for part in parts], dim=2)
        outputs = [part.attend(q, keys, values, scaling) for part, q in zip(parts, queries, strict=True)]
        return torch.cat(outputs, dim=2)


class Group:
    """Single tokens of neighbouring slots, attended to in one call over views of the cache."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = len(spans)
        self._slots = slice(spans[0].slot, spans[-1].slot + 1)
        ends = [span.end for span in spans]
        self._end = max(ends)
        self._mask = None if min(ends) == self._end else _end_mask(ends, self._end, device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """The query heads that share a key head go as its tokens, so no key is repeated."""
        keys, values = keys[self._slots, :, : self._end], values[self._slots, :, : self._end]
        grouped = query[0].transpose(0, 1).reshape(self.num_tokens, keys.shape[1], -1, query.shape[3])
        mask = None if self._mask is None else self._mask.to(query.dtype)
        output = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scaling)
        return output.reshape(self.num_tokens, query.shape[1], query.shape[3]).transpose(0, 1).unsqueeze(0)


class Prefill:
    """Several new tokens of one slot: causal among themselves, all keys before them visible."""

    def __init__(self, span: Span, device: torch.device) -> None:
        self.num_tokens = span.length
        self._span = span
        self._mask = None if span.start == 0 else _causal_mask(span, device)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        slot, end = self._span.slot, self._span.end
        return scaled_dot_product_attention(
            query,
            keys[slot : slot + 1, :, :end],
            values[slot : slot + 1, :, :end],
            attn_mask=None if self._mask is None else self._mask.to(query.dtype),
            is_causal=self._mask is None,
            scale=scaling,
            enable_gqa=True,
        )


def group_neighbours(spans: list[Span]) -> list[list[Span]]:
    """Cut single-token spans, sorted by slot, into runs of adjacent slots whose padding costs less than a call."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and _is_worth_joining(groups[-1], span):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _is_worth_joining(group: list[Span], span: Span) -> bool:
    if span.slot != group[-1].slot + 1:
        return False
    longest = max(member.end for member in group)
    padding = longest - span.end if span.end <= longest else (span.end - longest) * len(group)
    return padding <= CALL_TOKENS


def _end_mask(ends: list[int], width: int, device: torch.device) -> Tensor:
    """Additive mask `[rows, 1, 1, width]` that hides what lies at or past each row's end."""
    hidden = torch.arange(width, device=device) >= torch.tensor(ends, device=device)[:, None]
    return torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))[:, None, None]


def _causal_mask(span: Span, device: torch.device) -> Tensor:
    """Additive mask `[length, end]`: each new token sees the positions up to its own."""
    return torch.full((span.length, span.end), float("-inf"), device=device).triu_(span.start + 1)
