"""Blocks of the KV cache, as numbers: which are free, and how many sequences read each."""

import heapq
from collections.abc import Iterable

BLOCK_TOKENS = 64
"""Tokens of one block: smaller ones cost more calls per token, larger ones more room at the end of each sequence."""


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
