"""Interface of engines: token ids in; token ids, log-probs and policy version out."""

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
    """Request to sample one turn."""

    episode_id: str
    """Name of the episode; its requests extend each other's token ids, so the engine may cache."""
    token_ids: np.ndarray
    """Whole history so far, int32."""
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    seed: int
    """Random seed of the turn; the same weights, history and seed give the same tokens."""
    params: SamplingParams = field(default_factory=SamplingParams)
    trains: bool = True
    """False in evaluations, which alone may use other `params` than the policy's own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))

    @property
    def is_allowed(self) -> bool:
        """True if the request samples from the policy itself or is not for training."""
        return self.params.is_policy or not self.trains


def check_request(request: GenerateRequest, max_context: int) -> None:
    """Raise ValueError if the request filters a training sample or does not fit the context."""
    if not request.is_allowed:
        raise ValueError(f"training requests must sample from the policy's own distribution, not with {request.params}")
    if request.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {request.max_new_tokens}")
    if not 0 < len(request.token_ids) < max_context:
        raise ValueError(f"a history of {len(request.token_ids)} tokens leaves no room in a context of {max_context}")


def complete(
    request: GenerateRequest, token_ids: ArrayLike, logprobs: ArrayLike, finish_reason: str, policy_version: int
) -> Completion:
    """Build an engine's answer with the digest that training requires."""
    answer = Completion(np.asarray(token_ids), np.asarray(logprobs), finish_reason, policy_version)
    sampled = answer.token_ids, answer.logprobs, policy_version
    return replace(answer, digest=digest_turn(request.episode_id, request.token_ids, *sampled))


@dataclass(frozen=True)
class SavedWeights:
    """Weights in a Hugging Face model directory."""

    policy_version: int
    """Number of weight updates applied."""
    directory: Path


@dataclass(frozen=True)
class SharedWeights:
    """Weights in the memory of this process."""

    policy_version: int
    model: "PreTrainedModel"


WeightSource = SavedWeights | SharedWeights
"""Source of weights for an engine. Every engine takes both; an engine that shares the model copies nothing."""


class Engine(Protocol):
    """Engine that samples turns from the policy."""

    policy_version: int

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample until a stop token or the limit. Raises EngineError; ValueError if the request is not `is_allowed`.

        Log-probs are those of the policy itself, whatever distribution the request draws from. Engines build answers
        with `complete`; an answer without a digest may be evaluated but not trained on.
        """

    def release(self, episode_id: str) -> None:
        """Forget cached state of a finished episode."""

    async def load_weights(self, source: WeightSource) -> None:
        """Load weights for later turns. Raises EngineError during a turn, UsageError if they do not fit."""

    def close(self) -> None:
        """Fail running turns and refuse new ones. May be called twice."""
