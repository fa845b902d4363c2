"""Attention of decode steps over cached blocks, without copying keys.

Neighbouring blocks are multiplied at once with the queries of all sequences that read them. So the blocks of a prompt that
several episodes share are read once. A softmax over all blocks of a query combines the partial results.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from turnsmith.engines.torch.blocks import BLOCK_TOKENS, Span
from turnsmith.engines.torch.transfer import send

MAX_GAP = 4
"""Maximum length of a gap of unused blocks that is multiplied too, since one longer matrix product is faster than two."""


class Extent(NamedTuple):
    """Neighbouring cache blocks, `first` to `last` (excluded), each of which is read by `num_readers` queries."""

    first: int
    last: int
    num_readers: int

    @property
    def num_pairs(self) -> int:
        return (self.last - self.first) * self.num_readers


class Pairs(NamedTuple):
    """Pairs of a query and a cache block that it reads, as parallel arrays in ascending order of blocks."""

    blocks: np.ndarray
    queries: np.ndarray
    num_seen: np.ndarray
    """Number of tokens in each pair's block that the query attends to; 0 if the block only fills a gap (`find_gaps`)."""


class Decoding:
    """Attention of a decode step: each query token attends to the cached keys of its own sequence."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = len(spans)
        pairs = pair_up(spans)
        self._extents = find_extents(pairs.blocks)
        self._queries, num_seen = send([pairs.queries, pairs.num_seen], device)
        hidden = torch.arange(BLOCK_TOKENS, device=device) >= num_seen[:, None]
        self._mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))[:, None, None]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute attention of queries `[heads, tokens, head_dim]` to cached blocks; return `[tokens, heads, head_dim]`."""
        scale = query.shape[2] ** -0.5 if scaling is None else scaling
        grouped = (query.float() * scale).transpose(0, 1).unflatten(1, (keys.shape[1], -1))
        scores = self._by_extent(grouped[self._queries], keys.mT).add_(self._mask)
        weights = scores.sub_(self._highest(scores)).exp_()
        totals = self._sum(weights.sum(-1, keepdim=True))
        return (self._sum(self._by_extent(weights, values)) / totals).flatten(1, 2).to(values.dtype)

    def _by_extent(self, rows: Tensor, blocks: Tensor) -> Tensor:
        """Multiply row i of `rows`, `[pairs, key_heads, queries per key head, n]`, by the block of pair i in `blocks`."""
        parts = zip(rows.split([extent.num_pairs for extent in self._extents]), self._extents, strict=True)
        return torch.cat([multiply(part, blocks[each.first : each.last], each.num_readers) for part, each in parts])

    def _highest(self, scores: Tensor) -> Tensor:
        """Return each query's highest score in all its blocks, once per (query, block) pair: `[pairs, key_heads, …, 1]`."""
        highest = scores.amax(-1, keepdim=True)
        index = self._queries[:, None, None, None].expand(highest.shape)
        of_queries = highest.new_full((self.num_tokens, *highest.shape[1:]), float("-inf"))
        return of_queries.scatter_reduce_(0, index, highest, "amax")[self._queries]

    def _sum(self, values: Tensor) -> Tensor:
        """Sum the values of each query over its cache blocks: `[pairs, …]` to `[queries, …]`."""
        return values.new_zeros(self.num_tokens, *values.shape[1:]).index_add_(0, self._queries, values)


def multiply(rows: Tensor, blocks: Tensor, num_readers: int) -> Tensor:
    """Multiply rows `[blocks * num_readers, heads, group, n]`, sorted by block, by the blocks `[blocks, heads, n, m]`."""
    group = rows.shape[2]
    side_by_side = rows.unflatten(0, (-1, num_readers)).transpose(1, 2).flatten(2, 3)
    product = side_by_side @ blocks.float()
    return product.unflatten(2, (num_readers, group)).transpose(1, 2).flatten(0, 1)


def pair_up(spans: list[Span]) -> Pairs:
    """Pair the query of each span with each cache block that it attends to. Add masked pairs for blocks in short gaps."""
    blocks = np.array([block for span in spans for block in span.seen])
    num_seen = np.array([count for span in spans for count in span.fills])
    queries = np.repeat(np.arange(len(spans)), [len(span.seen) for span in spans])
    between = find_gaps(blocks)
    nothing = np.zeros(len(between), dtype=np.int64)
    columns = [np.concatenate(pair) for pair in ((blocks, between), (queries, nothing), (num_seen, nothing))]
    order = np.argsort(columns[0], kind="stable")
    return Pairs(*(column[order] for column in columns))


def find_gaps(blocks: np.ndarray) -> np.ndarray:
    """Return the unused blocks in gaps of at most MAX_GAP blocks between two used blocks that have one reader each."""
    used, readers = np.unique(blocks, return_counts=True)
    widths = np.diff(used) - 1
    is_single = readers == 1
    short = (widths > 0) & (widths <= MAX_GAP) & is_single[:-1] & is_single[1:]
    gaps = [np.arange(used[index] + 1, used[index + 1]) for index in np.flatnonzero(short)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *gaps])


def find_extents(blocks: np.ndarray) -> list[Extent]:
    """Split sorted block numbers into runs of neighbours that are read by equally many queries."""
    used, readers = np.unique(blocks, return_counts=True)
    starts = np.flatnonzero((np.diff(used) != 1) | (np.diff(readers) != 0)) + 1
    edges = [0, *starts.tolist(), len(used)]
    return [Extent(int(used[first]), int(used[last - 1]) + 1, int(readers[first])) for first, last in pairwise(edges)]
