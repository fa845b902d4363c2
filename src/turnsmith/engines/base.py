"""Interface of token engines: token ids in; token ids, log-probs and policy version out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from turnsmith.types import Completion, SamplingParams, digest_turn, to_array

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, eq=False)
class GenerateRequest:
    """Request to an engine for one turn of an episode."""

    episode_id: str
    """Name of the episode. Each request of an episode extends the tokens of the last one, so the engine may cache them."""
    token_ids: np.ndarray
    """Tokens of the whole episode so far, int32."""
    max_new_tokens: int
    stop_token_ids: frozenset[int]
    seed: int
    """Random seed of the turn. The same weights, history and seed give the same tokens."""
    params: SamplingParams = field(default_factory=SamplingParams)
    trains: bool = True
    """True if the turn may be used for training; False in evaluations, whose `params` may filter or rescale the distribution."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))

    @property
    def is_allowed(self) -> bool:
        """True unless the request is for training and filters or rescales the policy's distribution."""
        return self.params.is_policy or not self.trains


def check_request(request: GenerateRequest, max_context: int) -> None:
    """Raise ValueError if a training request uses filtered sampling, or if a request does not fit the context."""
    if not request.is_allowed:
        raise ValueError(f"training requests must sample from the policy's own distribution, not with {request.params}")
    if request.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {request.max_new_tokens}")
    if not 0 < len(request.token_ids) < max_context:
        raise ValueError(f"a history of {len(request.token_ids)} tokens leaves no room in a context of {max_context}")


def complete(
    request: GenerateRequest, token_ids: ArrayLike, logprobs: ArrayLike, finish_reason: str, policy_version: int
) -> Completion:
    """Build an engine's answer, with a digest by which the trainer checks that the engine sampled exactly these tokens."""
    answer = Completion(np.asarray(token_ids), np.asarray(logprobs), finish_reason, policy_version)
    sampled = answer.token_ids, answer.logprobs, policy_version
    return replace(answer, digest=digest_turn(request.episode_id, request.token_ids, *sampled))


@dataclass(frozen=True)
class SavedWeights:
    """Policy weights in a Hugging Face model directory."""

    policy_version: int
    """Number of updates of the policy that led to these weights."""
    directory: Path


@dataclass(frozen=True)
class SharedWeights:
    """Policy weights in the memory of this process."""

    policy_version: int
    model: "PreTrainedModel"


@dataclass(frozen=True)
class StreamedWeights:
    """Policy weights that other processes hold, and that arrive in chunks, so that no process holds a second copy of them."""

    policy_version: int
    shapes: Mapping[str, tuple[int, ...]]
    """Name of each weight, as in `model.named_parameters()` → its full shape. A weight shared by two layers has one name."""
    read: Callable[[], "Iterator[Sequence[tuple[str, Tensor]]]"]
    """Function that yields all weights once, in chunks of names and full tensors. It may be called until the next step."""


WeightSource = SavedWeights | SharedWeights | StreamedWeights
"""Source from which an engine loads weights: a directory, a model in this process, or a stream of chunks."""


class Engine(Protocol):
    """Engine that samples turns of the policy as tokens."""

    policy_version: int

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample a turn up to a stop token or `max_new_tokens`. Raises EngineError, or ValueError for an invalid request.

        The log-probs are always those of the unfiltered policy. Engines build answers with `complete`; answers without a
        digest are not used for training.
        """

    def release(self, episode_id: str) -> None:
        """Drop the cached state of a finished episode, or mark it as free to evict."""

    async def load_weights(self, source: WeightSource) -> None:
        """Load weights for later turns. Raises EngineError during a turn, UsageError if the weights do not fit the model."""

    def close(self) -> None:
        """End all running turns with an error and refuse new ones. May be called twice."""


@runtime_checkable
class SleepingEngine(Protocol):
    """Engine that can free the memory of GPUs which it shares with a trainer."""

    async def sleep(self) -> None:
        """Free memory until `load_weights`, if the engine shares GPUs with a trainer. Raises EngineError during a turn."""
