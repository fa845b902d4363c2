"""Token sequence of an episode, to which tokens are only appended."""

from collections.abc import Sequence

import numpy as np

from turnsmith.types import Completion


class History:
    """Token ids (int32), sampled flags (bool) and log-probs (float32) of an episode, as parallel arrays of shape [num_tokens]."""

    def __init__(self) -> None:
        self.token_ids = np.empty(0, np.int32)
        self.sampled = np.empty(0, np.bool_)
        self.logprobs = np.empty(0, np.float32)

    def __len__(self) -> int:
        return len(self.token_ids)

    def add_given(self, token_ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample: prompt, observations, template tokens."""
        self._add(np.array(token_ids, np.int32), np.zeros(len(token_ids), np.float32), sampled=False)

    def add_sampled(self, completion: Completion) -> None:
        """Append the tokens of a sampled turn, unchanged."""
        self._add(completion.token_ids, completion.logprobs, sampled=True)

    def _add(self, token_ids: np.ndarray, logprobs: np.ndarray, *, sampled: bool) -> None:
        self.token_ids = np.concatenate([self.token_ids, token_ids])
        self.sampled = np.concatenate([self.sampled, np.full(len(token_ids), sampled)])
        self.logprobs = np.concatenate([self.logprobs, logprobs])
