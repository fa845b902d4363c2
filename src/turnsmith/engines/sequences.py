"""Episodes in the KV cache: which tokens' keys are kept, in which blocks, and who must go when room is needed.

An episode keeps its blocks between its turns. Siblings read the full blocks of a common beginning together; the block in which
they part is copied. A turn is admitted when every block that it may need is there, so a running turn never waits for room;
until then it waits itself, and idle sequences are evicted, those of finished episodes first, then those unused for longest.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from turnsmith.engines.blocks import BLOCK_TOKENS, BlockPool, blocks_for


@dataclass(eq=False)
class CachedSequence:
    """The beginning of a history, whose keys are kept."""

    episode_id: str | None
    """None when the episode is over: the keys may still serve as a prefix."""
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Room for token ids; the first `length` are held."""
    length: int = 0
    blocks: list[int] = field(default_factory=list)
    is_busy: bool = False
    used_at: int = 0

    def common_prefix(self, history: np.ndarray) -> int:
        """Number of leading tokens that it shares with a history."""
        return common_prefix(self.tokens[: self.length], history)

    def hold(self, start: int, token_ids: list[int]) -> None:
        """Note that the keys of `token_ids` lie in the blocks from position `start`, and nothing after them."""
        self.length = start + len(token_ids)
        self.tokens[start : self.length] = token_ids


Admission = tuple[CachedSequence, tuple[int, int] | None]
"""A sequence that may run, and a block to be copied before, `(source, target)`, where its keys part from another's."""


class SequenceTable:
    """All sequences whose keys are kept."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._clock = 0
        self.forget()

    def forget(self) -> None:
        """All keys are void: nothing is held any more."""
        self._pool = BlockPool(self._num_blocks)
        self._sequences: list[CachedSequence] = []

    def longest_prefix(self, history: np.ndarray) -> int:
        """Number of leading tokens of a history whose keys are kept somewhere."""
        return max((sequence.common_prefix(history) for sequence in self._sequences), default=0)

    def admit(self, episode_id: str, history: np.ndarray, room: int) -> Admission | None:
        """The episode's sequence with what is known of `history` and blocks for `room` tokens; None where it has to wait."""
        own = self._idle_of(episode_id) or CachedSequence(episode_id)
        source, start = self._find_source(own, history)
        kept, parting = source.blocks[: start // BLOCK_TOKENS], source.blocks[start // BLOCK_TOKENS :][:1]
        num_fresh = blocks_for(room) - len(kept)
        if not self._can_free(num_fresh, kept):
            return None
        self._pool.share(kept)
        self._evict(own)
        self._make_room(num_fresh)
        fresh = self._pool.take(num_fresh)
        self._enter(own, history[:start], kept + fresh)
        copied = (parting[0], fresh[0]) if start % BLOCK_TOKENS and parting[0] != fresh[0] else None
        return own, copied

    def _idle_of(self, episode_id: str) -> CachedSequence | None:
        return next((each for each in self._sequences if each.episode_id == episode_id and not each.is_busy), None)

    def _find_source(self, own: CachedSequence, history: np.ndarray) -> tuple[CachedSequence, int]:
        """The sequence with the longest common beginning, its own if that is all of it, and the length of it."""
        if 0 < own.length == own.common_prefix(history):
            return own, own.length
        best = max([own, *self._sequences], key=lambda each: each.common_prefix(history))
        return best, best.common_prefix(history)

    def _can_free(self, count: int, kept: Iterable[int]) -> bool:
        """Are there so many blocks, if every idle sequence went but for the blocks that are kept?"""
        if count <= self._pool.num_free:
            return True
        idle = Counter(block for each in self._sequences if not each.is_busy for block in each.blocks)
        for block in kept:
            del idle[block]
        freed = sum(readers == self._pool.readers(block) for block, readers in idle.items())
        return count <= self._pool.num_free + freed

    def _make_room(self, count: int) -> None:
        """Evict idle sequences until so many blocks are free."""
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
        sequence.tokens = np.empty(len(blocks) * BLOCK_TOKENS, dtype=np.int64)
        sequence.hold(0, known.tolist())
        self._sequences.append(sequence)

    def rest(self, sequence: CachedSequence) -> None:
        """The turn is over: blocks that it did not fill are free, the others wait for the episode's next turn."""
        self._clock += 1
        sequence.is_busy, sequence.used_at = False, self._clock
        used = blocks_for(sequence.length)
        self._pool.drop(sequence.blocks[used:])
        sequence.blocks = sequence.blocks[:used]

    def release(self, episode_id: str) -> None:
        """The episode is over."""
        for sequence in self._sequences:
            if sequence.episode_id == episode_id:
                sequence.episode_id = None


def common_prefix(one: np.ndarray, other: np.ndarray) -> int:
    """Number of leading tokens that two histories share."""
    width = min(len(one), len(other))
    differs = one[:width] != other[:width]
    return int(differs.argmax()) if differs.any() else width
