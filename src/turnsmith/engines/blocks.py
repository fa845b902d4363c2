"""Keys and values of many episodes in blocks: how many a budget holds, which are free, what lies in them.

One forward pass sees spans of new tokens of several sequences, end to end in one row: a span of one token is a decode step, a
longer one a prefill.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PretrainedConfig

from turnsmith.errors import UsageError

BLOCK_TOKENS = 64
"""Tokens of one block: smaller ones cost more calls per token, larger ones more room at the end of each sequence."""

GIB = 2**30


def blocks_for(num_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-num_tokens // BLOCK_TOKENS)


class BlockPool:
    """A block is free while no sequence reads it."""

    def __init__(self, num_blocks: int) -> None:
        # A heap gives low numbers first: what is in use then lies together, and attention reads it in few calls.
        self._free = list(range(num_blocks))
        self._readers = [0] * num_blocks

    @property
    def num_free(self) -> int:
        return len(self._free)

    def readers(self, block: int) -> int:
        """Number of sequences that read a block."""
        return self._readers[block]

    def take(self, count: int) -> list[int]:
        """Free blocks, for one reader each; there must be as many."""
        blocks = [heapq.heappop(self._free) for _ in range(count)]
        self.share(blocks)
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more reader of each."""
        for block in blocks:
            self._readers[block] += 1

    def drop(self, blocks: Iterable[int]) -> None:
        """One reader less of each; those without any are free."""
        for block in blocks:
            self._readers[block] -= 1
            if not self._readers[block]:
                heapq.heappush(self._free, block)


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

    def write(self, layer: int, places: tuple[Tensor, Tensor], key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values `[heads, tokens, head_dim]` to their places (block, offset); returns all of the layer."""
        if layer not in self._layers:
            self._layers[layer] = self._room(value), self._room(value)
        blocks, offsets = places
        for store, new in zip(self._layers[layer], (key, value), strict=True):
            store[blocks, :, offsets] = new.to(store.dtype).transpose(0, 1)
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


def size_cache(
    config: PretrainedConfig, dtype: torch.dtype, *, max_context: int, num_episodes: int, num_bytes: float
) -> int:
    """Blocks for as many episodes of `max_context` tokens, within a budget. Raises UsageError where it cannot hold one."""
    block_bytes = BLOCK_TOKENS * kv_bytes_per_token(config, dtype)
    affordable, of_one = int(num_bytes // block_bytes), blocks_for(max_context)
    if affordable < of_one:
        raise UsageError(
            f"{num_bytes / GIB:.3g} GiB for keys and values hold {affordable * BLOCK_TOKENS} tokens, less than one episode "
            f"of max_context {max_context}, which takes {of_one * block_bytes / GIB:.3g} GiB: raise engine.kv_memory_gb, "
            "free memory, or lower max_context"
        )
    return min(affordable, num_episodes * of_one)


def bytes_for(config: PretrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """Bytes of the blocks that hold so many tokens."""
    return blocks_for(num_tokens) * BLOCK_TOKENS * kv_bytes_per_token(config, dtype)


def kv_bytes_per_token(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Bytes of one token's keys and values in all layers."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * key_heads * head_dim * dtype.itemsize)
