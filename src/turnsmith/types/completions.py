"""What is asked of an engine, and what it answers."""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from turnsmith.types.records import Record, check_parallel, to_array


class SamplingParams(Record):
    """How to sample. Anything but the policy's own distribution makes the importance ratio invalid (paper §5.2)."""

    temperature: float = Field(1.0, ge=0)
    """Logits are divided by it; 0 takes the likeliest token."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw from the fewest likeliest tokens that have this share together."""
    top_k: int = Field(0, ge=0)
    """Draw from so many likeliest tokens; 0: from all."""
    min_p: float = Field(0.0, ge=0, lt=1)
    """Draw from tokens that have at least this share of the likeliest one's."""
    repetition_penalty: float = Field(1.0, gt=0)
    """Weakens tokens that the history holds; 1: none."""

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
