"""Attention layout of samples that share prefixes: one copy of each prefix, followed by each sample's further tokens.

A token of a suffix attends to the prefix of its family and to earlier tokens of its own suffix, as in an unpacked sample. The
layers compute each prefix once, and the gradients of all samples add up in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.algo.prefixes import Family, place
from turnsmith.engines.torch.attention import Boundaries, attend_packed, has_kernel
from turnsmith.training.merged_attention import AttentionCall, MergedAttention


@dataclass(frozen=True)
class Segment:
    """Adjacent tokens of the row, which attend causally to each other and to all tokens of a prefix."""

    tokens: range
    prefix: range
    """Tokens of the prefix; empty if the segment is itself a prefix or a whole sample."""


class SharedLayout:
    """Attention layout of families in one row: for each family, its prefix and then its suffixes."""

    def __init__(self, families: Sequence[Family], device: torch.device) -> None:
        self.places = torch.from_numpy(place(families)).to(device)
        """Index in the row of each token of the samples end to end: int64, `[sample tokens]`."""
        lengths = [family.prefix + suffix for family in families for suffix in family.suffixes]
        self.position_ids = self.select(torch.cat([torch.arange(length) for length in lengths]).to(device))
        self._segments = list(list_segments(families))
        self._parts = dict[range, AttentionPart]()

    def select(self, column: Tensor) -> Tensor:
        """Return a column of the row, given that of the samples end to end: `[sample tokens]` in, `[row tokens]` out."""
        return column.new_empty(int(self.places.max()) + 1).scatter_(0, self.places, column)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention within each sample: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        return self.attend_from(0, query, key, value, scaling)

    def attend_from(self, start: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute attention of the queries of a part of the row, which begins at `start`, to the keys of the whole row."""
        # Under autocast, rotary embedding returns queries and keys in fp32, while values keep the autocast dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        tokens = range(start, start + query.size(2))
        if tokens not in self._parts:
            self._parts[tokens] = cut_part(self._segments, tokens, self.position_ids.device)
        part = self._parts[tokens]
        if has_kernel(value.device, value.dtype):
            return attend_by_kernel(part, query, key, value, scaling)
        if value.device.type == "cpu":
            return attend_by_calls(part, query, key, value, scaling)
        return attend_by_segment(part, query, key, value, scaling)


@dataclass(frozen=True, eq=False)
class AttentionPart:
    """Queries of adjacent tokens of a row, segment by segment, and the keys that they see."""

    calls: list[AttentionCall]
    """Calls that compute the attention on a CPU."""
    num_queries: list[int]
    """Queries of each segment."""
    keys: list[Tensor]
    """Places in the row of the keys that the last query of each segment sees, int64."""
    query_boundaries: Boundaries
    key_boundaries: Boundaries


def cut_part(segments: Sequence[Segment], tokens: range, device: torch.device) -> AttentionPart:
    """Cut segments to the queries of adjacent tokens of the row."""
    cuts = [(segment, own) for segment in segments if (own := overlap(segment.tokens, tokens))]
    num_queries = [len(own) for _, own in cuts]
    seen = [(segment.prefix, range(segment.tokens.start, own.stop)) for segment, own in cuts]
    keys = [torch.cat([torch.arange(each.start, each.stop) for each in pair]).to(device) for pair in seen]
    boundaries = Boundaries(num_queries, device), Boundaries([len(each) for each in keys], device)
    return AttentionPart(list_calls(segments, tokens), num_queries, keys, *boundaries)


def overlap(first: range, second: range) -> range:
    """Return the tokens that two ranges share."""
    return range(max(first.start, second.start), min(first.stop, second.stop))


def attend_by_calls(part: AttentionPart, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Compute and merge the calls of a CPU's attention kernel."""
    return MergedAttention.apply(query, key, value, part.calls, scaling)


def attend_by_kernel(part: AttentionPart, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Run the variable-length kernel with a copy of the prefix's keys and values for each segment that attends to it."""
    places = torch.cat(part.keys)
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    boundaries = part.query_boundaries, part.key_boundaries
    return attend_packed(query.contiguous(), key[places], value[places], *boundaries, scaling)[None]


def attend_by_segment(part: AttentionPart, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Compute the attention of each segment by a call with a mask."""
    outputs = []
    for own, places in zip(query.split(part.num_queries, dim=2), part.keys, strict=True):
        num_queries, num_keys = own.size(2), len(places)
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query.device).tril(num_keys - num_queries)
        attend = partial(scaled_dot_product_attention, attn_mask=mask, scale=scaling, enable_gqa=True)
        outputs.append(attend(own, key[:, :, places], value[:, :, places]))
    return torch.cat(outputs, dim=2).transpose(1, 2)


def list_segments(families: Sequence[Family]) -> Iterator[Segment]:
    """List the segments of a row in order: for each family its prefix, if it has one, and its suffixes that hold tokens."""
    end = 0
    for family in families:
        none, prefix = range(end, end), range(end, end := end + family.prefix)
        if prefix:
            yield Segment(prefix, none)
        for suffix in filter(None, family.suffixes):
            yield Segment(range(end, end := end + suffix), prefix)


def list_calls(segments: Sequence[Segment], tokens: range) -> list[AttentionCall]:
    """List the calls that compute the attention of adjacent tokens of a row.

    Each segment attends to itself and to its tokens before the part. Then all suffixes of a family attend to its prefix.
    """
    causal, earlier, suffixes = list[AttentionCall](), list[AttentionCall](), dict[range, range]()
    for segment in segments:
        if own := overlap(segment.tokens, tokens):
            queries = range(own.start - tokens.start, own.stop - tokens.start)
            causal.append(AttentionCall(queries, own, is_causal=True))
            if before := range(segment.tokens.start, own.start):
                earlier.append(AttentionCall(queries, before, is_causal=False))
            if segment.prefix:
                first = suffixes.setdefault(segment.prefix, queries)
                suffixes[segment.prefix] = range(first.start, queries.stop)
    return [
        *causal,
        *earlier,
        *(AttentionCall(queries, prefix, is_causal=False) for prefix, queries in suffixes.items()),
    ]
