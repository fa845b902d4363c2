"""What every engine offers: token ids in; token ids, log-probs and policy version out. Text never crosses it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from turnsmith.types import Completion, SamplingParams, digest_turn, to_array

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, eq=False)
class GenerateRequest:
    """One turn to sample."""

    episode_id: str
    """Requests of one episode extend each other's token ids, so the engine may keep what it computed."""
    token_ids: np.ndarray
    """The whole history so far, int32."""
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    seed: int
    """Seed of this turn's sampling noise: same weights, same history, same seed, same tokens."""
    params: SamplingParams = field(default_factory=SamplingParams)
    trains: bool = True
    """False in an evaluation, the only place where `params` may be others than the policy's own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))

    @property
    def is_allowed(self) -> bool:
        """What may be trained on is sampled from the policy itself."""
        return self.params.is_policy or not self.trains


def check_request(request: GenerateRequest, max_context: int) -> None:
    """Raise ValueError for what would not be a sample of the policy, or could not hold one."""
    if not request.is_allowed:
        raise ValueError(
            f"what trains is sampled from the policy's own distribution, but the request asks for {request.params}"
        )
    if request.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {request.max_new_tokens}")
    if not 0 < len(request.token_ids) < max_context:
        raise ValueError(f"a history of {len(request.token_ids)} tokens leaves no room in a context of {max_context}")


def complete(
    request: GenerateRequest, token_ids: ArrayLike, logprobs: ArrayLike, finish_reason: str, policy_version: int
) -> Completion:
    """What an engine answers, made where the tokens are sampled or first arrive: with the digest that training asks for."""
    answer = Completion(np.asarray(token_ids), np.asarray(logprobs), finish_reason, policy_version)
    sampled = answer.token_ids, answer.logprobs, policy_version
    return replace(answer, digest=digest_turn(request.episode_id, request.token_ids, *sampled))


@dataclass(frozen=True)
class SavedWeights:
    """Weights in a Hugging Face model directory."""

    policy_version: int
    """Number of weight updates that they have seen."""
    directory: Path


@dataclass(frozen=True)
class SharedWeights:
    """Weights in the memory of this process."""

    policy_version: int
    model: "PreTrainedModel"


WeightSource = SavedWeights | SharedWeights
"""Where an engine finds weights. Every engine takes both; who shares the model has nothing to copy."""


class Engine(Protocol):
    """Samples from the policy."""

    policy_version: int

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample until a stop token or the limit. Raises EngineError, and ValueError where the request is not `is_allowed`.

        Log-probs are always those of the policy itself, whatever the request draws from. The answer is made by `complete`:
        what has no digest may be evaluated, and does not train.
        """

    def release(self, episode_id: str) -> None:
        """The episode is over: forget what was kept for it."""

    async def load_weights(self, source: WeightSource) -> None:
        """Sample from these weights from now on. Raises EngineError during a turn, UsageError where they do not fit."""

    def close(self) -> None:
        """Fail the turns that still run, and take no more. Safe to call twice."""
