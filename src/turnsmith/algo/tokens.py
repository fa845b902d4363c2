"""Tokens in the loss of a micro-batch, as flat tensors that are parallel to their log-probs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from turnsmith.types import MicroBatch

Denominator = float | Mapping[str, float]
"""Divisor of each token's loss: one number, or one per trajectory id."""


@dataclass(frozen=True)
class LossTokens:
    """Tokens in the loss of a micro-batch: fp32 tensors with one number per token, and lists with one item per sample.

    Example with two tokens of sample `a` and one of sample `b`: `advantages=[0.5, 0.5, -1.0]`, `trajectory_ids=["a", "b"]`,
    `num_tokens=[2, 1]`.
    """

    sampled_logprobs: Tensor
    """Log-prob of each token that the engine reported at sampling."""
    old_logprobs: Tensor
    """Log-prob of each token under π_old, as the trainer computed it before the update; if it did not, `sampled_logprobs`."""
    advantages: Tensor
    trajectory_ids: list[str]
    """Trajectory id of each sample."""
    num_tokens: list[int]
    """Number of tokens in the loss, per sample."""

    @classmethod
    def of(cls, micro_batch: MicroBatch) -> "LossTokens":
        """Select the columns of a micro-batch at the tokens that `loss_mask` marks."""
        sampled = _gather("sampled_logprobs", micro_batch)
        return cls(
            sampled_logprobs=sampled,
            old_logprobs=_gather("old_logprobs", micro_batch) if _is_scored(micro_batch) else sampled,
            advantages=_gather("advantages", micro_batch),
            trajectory_ids=[sample.trajectory_id for sample in micro_batch.samples],
            num_tokens=[sample.num_loss_tokens for sample in micro_batch.samples],
        )

    def to(self, device: torch.device) -> "LossTokens":
        """Return a copy with all tensors on a device."""
        columns: dict[str, Any] = {name: c.to(device) for name, c in vars(self).items() if isinstance(c, Tensor)}
        return replace(self, **columns)

    def divisor(self, denominator: Denominator) -> Tensor:
        """Return the divisor of each token's loss, shape `[num_tokens]`, or a scalar if all tokens have the same divisor."""
        if not isinstance(denominator, Mapping):
            return torch.tensor(float(denominator), device=self.advantages.device)
        per_sample = torch.tensor([denominator[name] for name in self.trajectory_ids], device=self.advantages.device)
        return self.spread(per_sample)

    def sequence_means(self, per_token: Tensor) -> Tensor:
        """Average a tensor with one number per token over each sample, to shape `[num_samples]`."""
        return torch.stack([part.mean() for part in per_token.split(self.num_tokens)])

    def spread(self, per_sample: Tensor) -> Tensor:
        """Repeat each sample's number for all of the sample's tokens in the loss: `[num_samples]` to `[num_tokens]`."""
        return per_sample.repeat_interleave(torch.tensor(self.num_tokens, device=per_sample.device))


def _gather(column: str, micro_batch: MicroBatch) -> Tensor:
    """Select one column of a micro-batch at the tokens that `loss_mask` marks."""
    return torch.from_numpy(micro_batch.column(column)[micro_batch.column("loss_mask")])


def _is_scored(micro_batch: MicroBatch) -> bool:
    """Return True if the samples of a micro-batch have `old_logprobs`. Raises ValueError if only some samples have them."""
    scored = [sample.old_logprobs is not None for sample in micro_batch.samples]
    if any(scored) and not all(scored):
        raise ValueError("some samples of a micro-batch have old_logprobs and others have none")
    return all(scored)
