"""What every trainer offers. It owns the weights and their optimizer, and knows no algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.engines.base import WeightSource
from turnsmith.training.alternatives import Alternative
from turnsmith.types import MicroBatch


@dataclass(frozen=True)
class Surprisal:
    """How likely sampled tokens were, beside how likely tokens of the policy itself would be; sums over tokens, in nats."""

    num_tokens: int
    sampled: float
    """Sum of −log p of the tokens that were sampled."""
    expected: float
    """Sum of the entropies of the distributions that they were sampled from: what `sampled` is on average."""
    variance: float
    """Variance of `sampled` around `expected`, were the tokens drawn from the policy."""
    evidence: Mapping[Alternative, float] = field(default_factory=dict)
    """For each of `ALTERNATIVES`, the log of the likelihood of the tokens under it, over that under the policy."""


class Trainer(Protocol):
    """Trains one stage: a new optimizer over the weights that the stage begins with."""

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """One optimizer step over all micro-batches: the mean metrics of the loss, `loss/total`, `optimizer/grad_norm` (before
        the clip), `optimizer/learning_rate`. Raises TrainingError, weights untouched, where a number is not finite, and
        ProvenanceError where `check_provenance`, asked in the process that computes, finds what was not sampled."""

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Log-probs now, by trajectory id: float32, parallel to the sample's `token_ids`; 0 outside of the loss mask."""

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Of the loss tokens under the policy now: what shows a sampler that filters, since its log-probs alone cannot."""

    async def publish(self) -> WeightSource:
        """The weights as they are now, for an engine to load."""

    async def save(self, directory: Path) -> None:
        """Write a checkpoint that `load` resumes exactly and that is also a Hugging Face model directory. Raises UsageError."""

    async def load(self, directory: Path) -> None:
        """Resume from a checkpoint of `save`: weights, optimizer, schedule, counters. Raises UsageError."""

    def close(self) -> None:
        """Let go of memory and processes. Safe to call twice."""
