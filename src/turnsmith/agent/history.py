"""The token sequence of an episode; it only grows."""

from collections.abc import Sequence

import numpy as np

from turnsmith.types import Completion


class History:
    """Three parallel arrays, named as the columns of a trajectory."""

    def __init__(self) -> None:
        self.token_ids = np.empty(0, np.int32)
        self.sampled = np.empty(0, np.bool_)
        self.logprobs = np.empty(0, np.float32)

    def __len__(self) -> int:
        return len(self.token_ids)

    def add_given(self, token_ids: Sequence[int]) -> None:
        """Tokens that the policy reads: prompt, observations, the template's glue."""
        self._add(np.array(token_ids, np.int32), np.zeros(len(token_ids), np.float32), sampled=False)

    def add_sampled(self, completion: Completion) -> None:
        """Tokens that the policy sampled, exactly as it sampled them."""
        self._add(completion.token_ids, completion.logprobs, sampled=True)

    def _add(self, token_ids: np.ndarray, logprobs: np.ndarray, *, sampled: bool) -> None:
        self.token_ids = np.concatenate([self.token_ids, token_ids])
        self.sampled = np.concatenate([self.sampled, np.full(len(token_ids), sampled)])
        self.logprobs = np.concatenate([self.logprobs, logprobs])
