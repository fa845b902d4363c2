"""Allocation and storage of the blocks in the KV cache.

A forward pass takes spans of new tokens from several sequences, packed end to end. A span of one token is a decode step; a
longer span is a prefill.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PretrainedConfig

from turnsmith.errors import UsageError

BLOCK_TOKENS = 64
"""Tokens per cache block. Attention needs more calls with smaller blocks, and wastes more memory with larger ones."""

PAGE_TOKENS = 256
"""Tokens per cache block that CUDA's attention kernel reads in place: FlashAttention 2 takes only multiples of 256."""

GIB = 2**30


def blocks_for(num_tokens: int, block_tokens: int = BLOCK_TOKENS) -> int:
    return -(-num_tokens // block_tokens)


class BlockPool:
    """Reference counts of the cache blocks; a block is free if no sequence reads it."""

    def __init__(self, num_blocks: int) -> None:
        # A heap gives low numbers first, so used blocks are adjacent and attention reads them in few calls.
        self._free = list(range(num_blocks))
        self._readers = [0] * num_blocks

    @property
    def num_free(self) -> int:
        return len(self._free)

    def readers(self, block: int) -> int:
        """Return the number of sequences that use a block."""
        return self._readers[block]

    def take(self, count: int) -> list[int]:
        """Allocate `count` free blocks to one sequence. At least `count` blocks must be free."""
        blocks = [heapq.heappop(self._free) for _ in range(count)]
        self.share(blocks)
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Count one more sequence that uses each of these blocks."""
        for block in blocks:
            self._readers[block] += 1

    def drop(self, blocks: Iterable[int]) -> None:
        """Count one sequence less for each of these blocks, and free the blocks that no sequence uses."""
        for block in blocks:
            self._readers[block] -= 1
            if not self._readers[block]:
                heapq.heappush(self._free, block)


class Span(NamedTuple):
    """New tokens of one sequence in a forward pass: `length` tokens from position `start`. `blocks` hold the whole sequence."""

    blocks: list[int]
    start: int
    length: int
    block_tokens: int = BLOCK_TOKENS

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def seen(self) -> list[int]:
        """Cache blocks that the span's last token attends to."""
        return self.blocks[: blocks_for(self.end, self.block_tokens)]

    @property
    def fills(self) -> list[int]:
        """Number of tokens that the span's last token attends to, for each block in `seen`."""
        full, rest = divmod(self.end, self.block_tokens)
        return [self.block_tokens] * full + [rest] * (rest > 0)

    @property
    def last(self) -> "Span":
        """Span of the last new token alone."""
        return self._replace(start=self.end - 1, length=1)


class BlockStore:
    """Keys and values in the cache, per layer `[blocks, heads, block_tokens, head_dim]`; allocated at a layer's first write."""

    def __init__(self, num_blocks: int, device: torch.device, block_tokens: int = BLOCK_TOKENS) -> None:
        self.num_blocks = num_blocks
        self.device = device
        self.block_tokens = block_tokens
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, layer: int, places: tuple[Tensor, Tensor], key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values `[heads, tokens, head_dim]` at `places` (block, offset); return all of the layer's cache."""
        if layer not in self._layers:
            self._layers[layer] = self._room(value), self._room(value)
        blocks, offsets = places
        for store, new in zip(self._layers[layer], (key, value), strict=True):
            store[blocks, :, offsets] = new.to(store.dtype).transpose(0, 1)
        return self._layers[layer]

    def _room(self, like: Tensor) -> Tensor:
        # Not `empty`: masked keys have weight 0, and 0 times a stray NaN is NaN.
        return like.new_zeros(self.num_blocks, len(like), self.block_tokens, like.shape[2])

    @torch.inference_mode()
    def copy(self, source: int, target: int) -> None:
        """Copy the keys and values of one block to another, in all layers."""
        for stores in self._layers.values():
            for store in stores:
                store[target] = store[source]


def size_cache(
    config: PretrainedConfig, dtype: torch.dtype, *, max_context: int, num_episodes: int, num_bytes: float
) -> int:
    """Return the number of cache blocks for `num_episodes` within `num_bytes`. Raises UsageError if one episode does not fit."""
    block_bytes = BLOCK_TOKENS * kv_bytes_per_token(config, dtype)
    affordable, of_one = int(num_bytes // block_bytes), blocks_for(max_context)
    if affordable < of_one:
        raise UsageError(
            f"{num_bytes / GIB:.3g} GiB of KV cache hold {affordable * BLOCK_TOKENS} tokens, less than one episode "
            f"of max_context {max_context}, which takes {of_one * block_bytes / GIB:.3g} GiB: raise engine.kv_memory_gb, "
            "free memory, or lower max_context"
        )
    return min(affordable, num_episodes * of_one)


def bytes_for(config: PretrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """Return the bytes of the cache blocks that hold `num_tokens` tokens."""
    return blocks_for(num_tokens) * BLOCK_TOKENS * kv_bytes_per_token(config, dtype)


def kv_bytes_per_token(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Return the bytes of one token's attention keys and values in all layers."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * key_heads * head_dim * dtype.itemsize)
