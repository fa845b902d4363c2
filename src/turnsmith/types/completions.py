"""What is asked of an engine, and what it answers."""

from dataclasses import dataclass

import numpy as np

from turnsmith.types.records import check_parallel, to_array


@dataclass(frozen=True)
class SamplingParams:
    """How to sample. Anything but the policy's own distribution makes the importance ratio invalid (paper §5.2)."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def is_policy(self) -> bool:
        """True where samples come from the policy itself: temperature 1 and every filter off."""
        return self == SamplingParams()


@dataclass(frozen=True, eq=False)
class Completion:
    """What the engine sampled for one turn, the stop token included; the arrays are parallel."""

    token_ids: np.ndarray
    """int32."""
    logprobs: np.ndarray
    """float32."""
    finish_reason: str
    """`stop` after a stop token, `length` at the token limit."""
    policy_version: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))
        object.__setattr__(self, "logprobs", to_array(self.logprobs, np.float32))
        check_parallel("completion", self.token_ids, self.logprobs)
