"""Losses over the sampled tokens of a micro-batch: log-probs in, `(loss, metrics)` out.

Every loss is a sum divided by an explicit denominator, so the micro-batches of one optimizer batch add up to it.
Metrics are means over loss tokens, except those whose name ends in `_max`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from turnsmith.types import MicroBatch, Sample

Denominator = float | Mapping[str, float]
"""What the sum over tokens is divided by: one number, or one per trajectory id."""

Metrics = dict[str, float]

MAX_LOG_RATIO = 20.0
"""Bound on log-ratios before `exp`: a token that the two policies see e²⁰ apart must not make the loss infinite."""


@dataclass(frozen=True)
class LossTokens:
    """The loss tokens of a micro-batch, in its order; all tensors are 1-D, fp32 and parallel."""

    old_logprobs: Tensor
    """Log-probs under the policy that the ratio is taken to: by the trainer where it scored the samples, else by the engine."""
    advantages: Tensor
    trajectory_ids: list[str]
    """Trajectory of each sample."""
    num_tokens: list[int]
    """Loss tokens of each sample."""

    @classmethod
    def of(cls, micro_batch: MicroBatch) -> "LossTokens":
        """Gather what the loss needs of a micro-batch; positions outside of the loss mask are gone."""
        samples = micro_batch.samples
        old = [s.sampled_logprobs if s.old_logprobs is None else s.old_logprobs for s in samples]
        return cls(
            old_logprobs=_gather(old, samples),
            advantages=_gather([sample.advantages for sample in samples], samples),
            trajectory_ids=[sample.trajectory_id for sample in samples],
            num_tokens=[sample.num_loss_tokens for sample in samples],
        )

    def to(self, device: torch.device) -> "LossTokens":
        """The same on another device."""
        return LossTokens(
            self.old_logprobs.to(device), self.advantages.to(device), self.trajectory_ids, self.num_tokens
        )

    def divisor(self, denominator: Denominator) -> Tensor:
        """The denominator of each token, shape [num_tokens], or a scalar where it is one for all."""
        if not isinstance(denominator, Mapping):
            return torch.tensor(float(denominator), device=self.advantages.device)
        per_sample = torch.tensor([denominator[name] for name in self.trajectory_ids], device=self.advantages.device)
        return per_sample.repeat_interleave(torch.tensor(self.num_tokens, device=self.advantages.device))


def _gather(columns: list[np.ndarray], samples: list[Sample]) -> Tensor:
    kept = [column[sample.loss_mask] for column, sample in zip(columns, samples, strict=True)]
    return torch.from_numpy(np.concatenate(kept))


def batch_denominator(samples: list[Sample]) -> float:
    """Action tokens of an optimizer batch: every token weighs the same (paper §3.2, as the text has it)."""
    return float(sum(sample.num_loss_tokens for sample in samples))


def group_denominators(samples: list[Sample]) -> dict[str, float]:
    """Per trajectory: action tokens of its group times the number of groups, so groups weigh the same (after Eq. 8).

    Both counts are taken over `samples`, one optimizer batch.
    """
    tokens: dict[str, float] = {}
    for sample in samples:
        tokens[sample.group_id] = tokens.get(sample.group_id, 0.0) + sample.num_loss_tokens
    return {sample.trajectory_id: tokens[sample.group_id] * len(tokens) for sample in samples}


def nll_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """Negative log-likelihood of the loss tokens, for RFT (paper §4.2); `logprobs` has shape [num_tokens]."""
    loss = -(logprobs / tokens.divisor(denominator)).sum()
    return loss, {"loss/nll": -logprobs.detach().mean().item()}


def dapo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """Clipped token-level policy loss with an asymmetric clip and no KL term (paper Eq. 8); all 1-D over loss tokens."""
    log_ratio = (logprobs - tokens.old_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_eps_low, 1 + clip_eps_high)
    objective = torch.minimum(ratio * tokens.advantages, clipped * tokens.advantages)
    loss = -(objective / tokens.divisor(denominator)).sum()
    metrics = _ratio_metrics(log_ratio.detach(), tokens.advantages, clip_eps_low, clip_eps_high)
    return loss, metrics | {"loss/entropy": -logprobs.detach().mean().item()}


def _ratio_metrics(log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float) -> Metrics:
    """How far the policy moved; the clip counts only where it stops the gradient; KL(old ‖ new) by the k3 estimator."""
    ratio = log_ratio.exp()
    return {
        "loss/ratio_mean": ratio.mean().item(),
        "loss/ratio_max": ratio.max().item(),
        "loss/clip_frac_low": ((advantages < 0) & (ratio < 1 - clip_eps_low)).float().mean().item(),
        "loss/clip_frac_high": ((advantages > 0) & (ratio > 1 + clip_eps_high)).float().mean().item(),
        "loss/kl_old_new": (ratio - 1 - log_ratio).mean().item(),
    }
