"""The record of one episode, and the growing history that it is made of."""

from dataclasses import dataclass, field

from turnsmith.types import Completion, StopReason, Turn


@dataclass(frozen=True)
class Episode:
    """What one episode leaves. `token_ids`, `sampled` and `logprobs` are parallel."""

    token_ids: list[int]
    sampled: list[bool]
    """True on tokens that the policy sampled."""
    logprobs: list[float]
    """Log-probability of each sampled token; 0 elsewhere."""
    turns: list[Turn]
    stop_reason: StopReason
    prompt_tokens: int
    """Length of the first prompt."""
    patch: str
    """Diff of the workspace at the end; empty where the sandbox failed."""
    policy_version: int
    duration_s: float
    detail: str = ""
    """The fault, where the infrastructure ended the episode."""


@dataclass
class History:
    """The token sequence so far; it only grows."""

    token_ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.token_ids)

    def add_given(self, token_ids: list[int]) -> None:
        """Tokens that the policy reads: prompt, observations, the template's glue."""
        self._add(token_ids, [0.0] * len(token_ids), sampled=False)

    def add_sampled(self, completion: Completion) -> None:
        """Tokens that the policy sampled, exactly as it sampled them."""
        self._add(completion.token_ids, completion.logprobs, sampled=True)

    def _add(self, token_ids: list[int], logprobs: list[float], *, sampled: bool) -> None:
        self.token_ids.extend(token_ids)
        self.sampled.extend([sampled] * len(token_ids))
        self.logprobs.extend(logprobs)
