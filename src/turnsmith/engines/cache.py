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

    def __init__(self, blocks: np.ndarray, positions: np.ndarray, device: torch.device) -> None:
        """Block of each token, and its position in its sequence."""
        self.positions = torch.from_numpy(positions).to(device)
        self._blocks = torch.from_numpy(blocks).to(device)
        self._by_heads: dict[int, Tensor] = {}

    @classmethod
    def of_new(cls, spans: list[Span], device: torch.device) -> "Places":
        """Of the new tokens of some spans."""
        return cls._of([(span.blocks, span.start, span.end) for span in spans], device)

    @classmethod
    def of_seen(cls, spans: list[Span], device: torch.device) -> "Places":
        """Of all tokens of some spans, those from before included."""
        return cls._of([(span.blocks, 0, span.end) for span in spans], device)

    @classmethod
    def _of(cls, ranges: list[tuple[list[int], int, int]], device: torch.device) -> "Places":
        positions = [np.arange(start, end) for _, start, end in ranges]
        blocks = [np.array(table)[each // BLOCK_TOKENS] for (table, _, _), each in zip(ranges, positions, strict=True)]
        return cls(np.concatenate(blocks), np.concatenate(positions), device)

    def of(self, num_heads: int) -> Tensor:
        """Rows of a store `[blocks * heads * block_tokens, head_dim]`, `[heads, tokens]`; computed once per number of heads."""
        if num_heads not in self._by_heads:
            heads = torch.arange(num_heads, device=self.positions.device)[:, None]
            offsets = self.positions % BLOCK_TOKENS
            self._by_heads[num_heads] = (self._blocks * num_heads + heads) * BLOCK_TOKENS + offsets
        return self._by_heads[num_heads]
