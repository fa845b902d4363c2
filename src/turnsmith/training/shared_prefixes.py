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
from turnsmith.training.merged_attention import Call, MergedAttention, cut


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
        seen = [tokens for segment in self._segments for tokens in (segment.prefix, segment.tokens)]
        self._keys = torch.cat([torch.arange(tokens.start, tokens.stop) for tokens in seen]).to(device)
        self._query_boundaries = Boundaries([len(each.tokens) for each in self._segments], device)
        self._key_boundaries = Boundaries([len(each.prefix) + len(each.tokens) for each in self._segments], device)

    def select(self, column: Tensor) -> Tensor:
        """Return a column of the row, given that of the samples end to end: `[sample tokens]` in, `[row tokens]` out."""
        return column.new_empty(int(self.places.max()) + 1).scatter_(0, self.places, column)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention within each sample: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        # Under autocast, rotary embedding returns queries and keys in fp32, while values keep the autocast dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if has_kernel(value.device, value.dtype):
            return self._attend_by_kernel(query, key, value, scaling)
        if value.device.type == "cpu":
            return MergedAttention.apply(query, key, value, list_calls(self._segments), scaling)
        return self._attend_by_segment(query, key, value, scaling)

    def _attend_by_kernel(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Run the variable-length kernel with a copy of the prefix's keys and values for each segment that attends to it."""
        query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
        seen = key[self._keys], value[self._keys]
        boundaries = self._query_boundaries, self._key_boundaries
        return attend_packed(query.contiguous(), *seen, *boundaries, scaling)[None]

    def _attend_by_segment(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of each segment by a call with a mask."""
        outputs = []
        for segment in self._segments:
            own, prefix = segment.tokens, segment.prefix
            keys, values = (torch.cat([cut(each, prefix), cut(each, own)], dim=2) for each in (key, value))
            mask = torch.ones(len(own), keys.size(2), dtype=torch.bool, device=query.device).tril(len(prefix))
            attend = partial(scaled_dot_product_attention, attn_mask=mask, scale=scaling, enable_gqa=True)
            outputs.append(attend(cut(query, own), keys, values))
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


def list_calls(segments: Sequence[Segment]) -> list[Call]:
    """List the calls that compute the attention of a row: each segment to itself, then all suffixes of a family to its prefix."""
    suffixes: dict[range, range] = {}
    for segment in segments:
        if segment.prefix:
            first = suffixes.setdefault(segment.prefix, segment.tokens)
            suffixes[segment.prefix] = range(first.start, segment.tokens.stop)
    return [
        *((each.tokens, each.tokens) for each in segments),
        *((tokens, prefix) for prefix, tokens in suffixes.items()),
    ]
