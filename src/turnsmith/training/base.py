"""Interface of trainers, which own weights and optimizer and know no algorithm."""

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
    """Surprisal of sampled tokens, and its expected value under the policy; sums over tokens, in nats."""

    num_tokens: int
    sampled: float
    """Sum of −log p over the sampled tokens."""
    expected: float
    """Sum of the policy's entropies at these tokens, the expected value of `sampled`."""
    variance: float
    """Variance of `sampled` for tokens drawn from the policy."""
    evidence: Mapping[Alternative, float] = field(default_factory=dict)
    """Log-likelihood ratio to the policy for each of `ALTERNATIVES`."""


class Trainer(Protocol):
    """Trainer of one stage, with a new optimizer over the stage's initial weights."""

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """Make one optimizer step over all micro-batches; return mean loss metrics, `loss/total`, `optimizer/grad_norm`
        (before clipping) and `optimizer/learning_rate`.

        Raises TrainingError, with weights untouched, if a number is not finite. Raises ProvenanceError if
        `check_provenance`, called in the computing process, finds tokens that were not sampled.
        """

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Return current log-probs by trajectory id: float32, parallel to `token_ids`; 0 outside the loss mask."""

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Return surprisal and entropy of the loss tokens; their difference reveals a filtering sampler."""

    async def publish(self) -> WeightSource:
        """Return the current weights for an engine to load."""

    async def save(self, directory: Path) -> None:
        """Write a checkpoint that `load` resumes exactly and that is a Hugging Face model directory. Raises UsageError."""

    async def load(self, directory: Path) -> None:
        """Resume weights, optimizer, schedule and counters from a checkpoint of `save`. Raises UsageError."""

    def close(self) -> None:
        """Release memory and processes. May be called twice."""
