"""Table of the sequences in the KV cache: cached tokens, their blocks, and eviction.

An episode keeps its blocks between turns. Sibling episodes share the full blocks of a common prefix; the block in which they
diverge is copied. A turn starts only if all blocks that it may need are available, so a running turn never waits for room.
Idle sequences are evicted, those of finished episodes first, then the least recently used.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from turnsmith.engines.torch.blocks import BLOCK_TOKENS, BlockPool, blocks_for


@dataclass(eq=False)
class CachedSequence:
    """Token sequence of an episode whose keys are in the cache."""

    episode_id: str | None
    """Name of the episode; None once the episode is over and its keys only serve other episodes as a prefix."""
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Buffer of token ids; the keys of the first `length` ids are cached."""
    length: int = 0
    blocks: list[int] = field(default_factory=list)
    is_busy: bool = False
    used_at: int = 0

    def common_prefix(self, history: np.ndarray) -> int:
        """Return the number of leading cached tokens that equal those of a history."""
        return common_prefix(self.tokens[: self.length], history)

    def hold(self, start: int, token_ids: list[int]) -> None:
        """Record that the cache holds the keys of `token_ids` from position `start` on; forget later tokens."""
        self.length = start + len(token_ids)
        self.tokens[start : self.length] = token_ids


Admission = tuple[CachedSequence, tuple[int, int] | None]
"""Sequence of a started turn, and the block numbers (source, target) to copy before its first step, or None."""


class SequenceTable:
    """Table of the token sequences whose keys and values are cached."""

    def __init__(self, num_blocks: int, block_tokens: int = BLOCK_TOKENS) -> None:
        self._num_blocks = num_blocks
        self._block_tokens = block_tokens
        self._clock = 0
        self.forget()

    def forget(self) -> None:
        """Drop all cached sequences."""
        self._pool = BlockPool(self._num_blocks)
        self._sequences: list[CachedSequence] = []

    def longest_prefix(self, history: np.ndarray) -> int:
        """Return the number of leading tokens of a history that the best cached sequence holds."""
        return max((sequence.common_prefix(history) for sequence in self._sequences), default=0)

    def admit(self, episode_id: str, history: np.ndarray, room: int) -> Admission | None:
        """Reserve blocks for `room` tokens of an episode, reusing the cached prefix of `history`; None if the turn must wait."""
        idle = (each for each in self._sequences if each.episode_id == episode_id and not each.is_busy)
        own = next(idle, None) or CachedSequence(episode_id)
        source, start = self._find_source(own, history)
        num_kept, num_parting = divmod(start, self._block_tokens)
        kept, parting = source.blocks[:num_kept], source.blocks[num_kept:][:1]
        num_fresh = blocks_for(room, self._block_tokens) - num_kept
        if not self._can_free(num_fresh, kept):
            return None
        self._pool.share(kept)
        self._evict(own)
        self._make_room(num_fresh)
        fresh = self._pool.take(num_fresh)
        self._enter(own, history[:start], kept + fresh)
        copied = (parting[0], fresh[0]) if num_parting and parting[0] != fresh[0] else None
        return own, copied

    def _find_source(self, own: CachedSequence, history: np.ndarray) -> tuple[CachedSequence, int]:
        """Return the sequence with the longest prefix of a history, and that length. Prefer `own` if all of it matches."""
        if 0 < own.length == own.common_prefix(history):
            return own, own.length
        best = max([own, *self._sequences], key=lambda each: each.common_prefix(history))
        return best, best.common_prefix(history)

    def _can_free(self, count: int, kept: Iterable[int]) -> bool:
        """Return True if evicting idle sequences can free `count` blocks without freeing the `kept` blocks."""
        if count <= self._pool.num_free:
            return True
        idle = Counter(block for each in self._sequences if not each.is_busy for block in each.blocks)
        for block in kept:
            del idle[block]
        freed = sum(readers == self._pool.readers(block) for block, readers in idle.items())
        return count <= self._pool.num_free + freed

    def _make_room(self, count: int) -> None:
        idle = [each for each in self._sequences if not each.is_busy]
        for sequence in sorted(idle, key=lambda each: (each.episode_id is not None, each.used_at)):
            if count <= self._pool.num_free:
                return
            self._evict(sequence)

    def _evict(self, sequence: CachedSequence) -> None:
        self._pool.drop(sequence.blocks)
        self._sequences = [each for each in self._sequences if each is not sequence]

    def _enter(self, sequence: CachedSequence, known: np.ndarray, blocks: list[int]) -> None:
        sequence.blocks, sequence.is_busy = blocks, True
        sequence.tokens = np.empty(len(blocks) * self._block_tokens, dtype=np.int64)
        sequence.hold(0, known.tolist())
        self._sequences.append(sequence)

    def rest(self, sequence: CachedSequence) -> None:
        """Mark a sequence as idle after its turn, and free the blocks that the turn did not fill."""
        self._clock += 1
        sequence.is_busy, sequence.used_at = False, self._clock
        used = blocks_for(sequence.length, self._block_tokens)
        self._pool.drop(sequence.blocks[used:])
        sequence.blocks = sequence.blocks[:used]

    def release(self, episode_id: str) -> None:
        """Mark the sequences of a finished episode as the first to evict."""
        for sequence in self._sequences:
            if sequence.episode_id == episode_id:
                sequence.episode_id = None


def common_prefix(one: np.ndarray, other: np.ndarray) -> int:
    """Return the number of leading tokens shared by two histories."""
    width = min(len(one), len(other))
    differs = one[:width] != other[:width]
    return int(differs.argmax()) if differs.any() else width
