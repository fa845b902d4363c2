"""Who sits in which slot of the cache, and which tokens' keys lie there."""

import numpy as np


class SlotTable:
    """Slots with the tokens that they hold; a slot whose episode is over keeps its tokens until someone needs the room."""

    def __init__(self, num_slots: int, max_tokens: int) -> None:
        self._tokens = np.full((num_slots, max_tokens), -1, dtype=np.int64)
        self._lengths = [0] * num_slots
        self._owners: list[str | None] = [None] * num_slots
        self._busy = [False] * num_slots
        self._used_at = [0] * num_slots
        self._clock = 0

    @property
    def all_busy(self) -> bool:
        return all(self._busy)

    def assign(self, episode_id: str) -> int:
        """Its own slot, else a free one, else the idle one unused for longest; it is busy then. Not all may be busy before."""
        idle = [slot for slot, busy in enumerate(self._busy) if not busy]
        own = [slot for slot in idle if self._owners[slot] == episode_id]
        free = [slot for slot in idle if self._owners[slot] is None]
        slot = min(own or free or idle, key=self._used_at.__getitem__)
        self._owners[slot], self._busy[slot] = episode_id, True
        return slot

    def prefix_lengths(self, token_ids: np.ndarray) -> np.ndarray:
        """Number of leading tokens that each slot shares with `token_ids`, shape [slots]."""
        width = len(token_ids)
        differs = np.ones((len(self._tokens), width + 1), dtype=bool)
        np.not_equal(self._tokens[:, :width], token_ids, out=differs[:, :width])
        return differs.argmax(axis=1)

    def hold(self, slot: int, start: int, token_ids: list[int]) -> None:
        """Note that the keys of `token_ids` lie in a slot from position `start`, and nothing after them."""
        end = start + len(token_ids)
        self._tokens[slot, start:end] = token_ids
        self._tokens[slot, end : self._lengths[slot]] = -1
        self._lengths[slot] = end

    def rest(self, slot: int) -> None:
        """The turn is over: the slot waits for its episode's next one."""
        self._clock += 1
        self._busy[slot], self._used_at[slot] = False, self._clock

    def release(self, episode_id: str) -> None:
        """The episode is over: its slot is free, its tokens may still serve as a prefix."""
        for slot, owner in enumerate(self._owners):
            if owner == episode_id:
                self._owners[slot] = None

    def forget(self) -> None:
        """All keys are void: nothing is held any more."""
        self._tokens[:] = -1
        self._lengths = [0] * len(self._lengths)
