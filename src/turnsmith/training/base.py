"""Interface of trainers, which hold the weights and the optimizer and get the loss as a function."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.engines.base import WeightSource
from turnsmith.training.sampler_settings import Alternative
from turnsmith.types import MicroBatch


@dataclass(frozen=True)
class Surprisal:
    """Surprisal (−log p) of sampled tokens, and the surprisal expected under the policy; sums over tokens, in nats."""

    num_tokens: int
    sampled: float
    """Sum of −log p over the sampled tokens."""
    expected: float
    """Expected surprisal of tokens drawn from the policy: the sum of the policy's entropies."""
    variance: float
    """Variance of the summed surprisal if the tokens are drawn from the policy."""
    evidence: Mapping[Alternative, float] = field(default_factory=dict)
    """Alternative sampler setting → log(likelihood of the tokens under the setting / likelihood under the policy)."""


class Trainer(Protocol):
    """Trainer of one stage of a run. Each stage starts with a new optimizer."""

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """Make one optimizer step over all micro-batches and return metrics.

        The metrics are the means of the loss function's metrics, `loss/total`, `optimizer/grad_norm` (before clipping) and
        `optimizer/learning_rate`. Raises TrainingError, with weights unchanged, if the loss or the gradient norm is not finite.
        Raises ProvenanceError if `check_provenance`, called in the process that computes the loss, finds changed tokens.
        """

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Map trajectory ids to current log-probs of their tokens: float32, parallel to `token_ids`; 0 outside the loss mask."""

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Return sums over the tokens in the loss: −log p, its expectation and variance, evidence for other sampler settings."""

    async def publish(self) -> WeightSource:
        """Return the current weights for an engine to load."""

    async def save(self, directory: Path) -> None:
        """Write a checkpoint, from which `load` resumes exactly, as a Hugging Face model directory. Raises UsageError."""

    async def load(self, directory: Path) -> None:
        """Load weights, optimizer, learning-rate schedule and counters from a checkpoint of `save`. Raises UsageError."""

    def close(self) -> None:
        """Release the trainer's memory and processes. May be called twice."""
