"""What every engine offers: token ids in; token ids, log-probs and policy version out. Text never crosses it."""

from dataclasses import dataclass, field
from typing import Protocol

from turnsmith.types import Completion, SamplingParams


@dataclass(frozen=True)
class GenerateRequest:
    """One turn to sample."""

    episode_id: str
    """Requests of one episode extend each other's token ids, so the engine may keep what it computed."""
    token_ids: list[int]
    """The whole history so far."""
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    seed: int
    """Seed of this turn's sampling noise: same weights, same history, same seed, same tokens."""
    params: SamplingParams = field(default_factory=SamplingParams)


class Engine(Protocol):
    """Samples from the policy."""

    policy_version: int

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample until a stop token or the limit. Raises EngineError, and ValueError where the request filters the policy."""

    def release(self, episode_id: str) -> None:
        """The episode is over: forget what was kept for it."""
