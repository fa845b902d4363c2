"""Keys and values of many episodes in blocks, and where packed tokens find theirs.

One forward pass sees spans of new tokens of several sequences, end to end in one row: a span of one token is a decode step, a
longer one a prefill.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from turnsmith.engines.blocks import BLOCK_TOKENS, blocks_for


class Span(NamedTuple):
    """New tokens of one sequence, whose keys lie in `blocks`: `length` of them, the first at position `start`."""

    blocks: list[int]
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def seen(self) -> list[int]:
        """Blocks that its last token sees."""
        return self.blocks[: blocks_for(self.end)]

    @property
    def fills(self) -> list[int]:
        """Tokens that it sees of each."""
        full, rest = divmod(self.end, BLOCK_TOKENS)
        return [BLOCK_TOKENS] * full + [rest] * (rest > 0)


class BlockStore:
    """Keys and values of every layer, each `[blocks, heads, block_tokens, head_dim]`, made when a layer first writes."""

    def __init__(self, num_blocks: int, device: torch.device) -> None:
        self.num_blocks = num_blocks
        self.device = device
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, layer: int, places: "Places", key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values `[heads, tokens, head_dim]` to their places; returns all of the layer."""
        if layer not in self._layers:
            self._layers[layer] = self._room(value), self._room(value)
        for store, new in zip(self._layers[layer], (key, value), strict=True):
            store.flatten(0, 2).index_copy_(0, places.of(len(new)).flatten(), new.to(store.dtype).flatten(0, 1))
        return self._layers[layer]

    def _room(self, like: Tensor) -> Tensor:
        # Not `empty`: masked keys weigh nothing, but nothing times a stray NaN is NaN.
        return like.new_zeros(self.num_blocks, len(like), BLOCK_TOKENS, like.shape[2])

    @torch.inference_mode()
    def copy(self, source: int, target: int) -> None:
        """Copy one block to another, all layers."""
        for stores in self._layers.values():
            for store in stores:
                store[target] = store[source]


class Places:
    """Where tokens lie in a flattened store."""

    def __init__(self, blocks: Tensor, offsets: Tensor) -> None:
        """Block of each token, and its place in the block."""
        self._blocks, self._offsets = blocks, offsets
        self._by_heads: dict[int, Tensor] = {}

    def of(self, num_heads: int) -> Tensor:
        """Rows of a store `[blocks * heads * block_tokens, head_dim]`, `[heads, tokens]`; computed once per number of heads."""
        if num_heads not in self._by_heads:
            heads = torch.arange(num_heads, device=self._blocks.device)[:, None]
            self._by_heads[num_heads] = (self._blocks * num_heads + heads) * BLOCK_TOKENS + self._offsets
        return self._by_heads[num_heads]


def position(spans: list[Span], device: torch.device) -> Tensor:
    """Positions of the new tokens of some spans in their sequences."""
    return torch.from_numpy(np.concatenate([np.arange(span.start, span.end) for span in spans])).to(device)


def place_new(spans: list[Span], device: torch.device) -> Places:
    """Of the new tokens of some spans."""
    positions = [np.arange(span.start, span.end) for span in spans]
    blocks = [np.array(span.blocks)[each // BLOCK_TOKENS] for span, each in zip(spans, positions, strict=True)]
    offsets = np.concatenate(positions) % BLOCK_TOKENS
    return Places(torch.from_numpy(np.concatenate(blocks)).to(device), torch.from_numpy(offsets).to(device))


def place_seen(spans: list[Span], device: torch.device) -> Places:
    """Of all tokens of some spans, those from before included: there are many, so the device makes them out of the blocks."""
    blocks = torch.tensor([block for span in spans for block in span.seen], device=device)
    num_seen = torch.tensor([count for span in spans for count in span.fills], device=device)
    is_seen = torch.arange(BLOCK_TOKENS, device=device) < num_seen[:, None]
    rows, offsets = is_seen.nonzero(as_tuple=True)
    return Places(blocks[rows], offsets)
