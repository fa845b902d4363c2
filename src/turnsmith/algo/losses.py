"""What losses are made of, the clipped surrogate of PPO (arXiv 1707.06347, Eq. 7) among it, and the loss of fine-tuning.

Tensors share the shape `[num_tokens]`. Denominators are counted over one optimizer batch, so that its micro-batches add up to it.
"""

from collections import Counter

from turnsmith.algo.algorithm import Denominator, LossTokens, Metrics, Tensor
from turnsmith.types import Sample

MAX_LOG_RATIO = 20.0
"""Bound on log-ratios before `exp`: a token that the two policies see e²⁰ apart must not make the loss infinite."""


def bounded(log_ratio: Tensor) -> Tensor:
    """Log-ratios whose exponential is finite."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped_surrogate(
    logprobs: Tensor, log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """min(ρÂ, clip(ρ, 1 − ε_low, 1 + ε_high)Â) of each token, and what `ratio_metrics` tells of ρ."""
    log_ratio = bounded(log_ratio)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_eps_low, 1 + clip_eps_high)
    metrics = ratio_metrics(logprobs, log_ratio, advantages, clip_eps_low, clip_eps_high)
    return (ratio * advantages).minimum(clipped * advantages), metrics


def ratio_metrics(
    logprobs: Tensor, log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float
) -> Metrics:
    """How far the policy moved; the clip counts only where it stops the gradient; KL(old ‖ new) by the k3 estimator."""
    log_ratio = log_ratio.detach()
    ratio = log_ratio.exp()
    return {
        "loss/ratio_mean": ratio.mean().item(),
        "loss/ratio_max": ratio.max().item(),
        "loss/clip_frac_low": ((advantages < 0) & (ratio < 1 - clip_eps_low)).float().mean().item(),
        "loss/clip_frac_high": ((advantages > 0) & (ratio > 1 + clip_eps_high)).float().mean().item(),
        "loss/kl_old_new": (ratio - 1 - log_ratio).mean().item(),
        **entropy_metric(logprobs),
    }


def entropy_metric(logprobs: Tensor) -> Metrics:
    """Entropy of the policy, estimated by −log p of what was sampled."""
    return {"loss/entropy": -logprobs.detach().mean().item()}


def batch_denominator(samples: list[Sample]) -> float:
    """Action tokens of the batch: every token weighs the same (paper §3.2, as the text has it)."""
    return float(sum(sample.num_loss_tokens for sample in samples))


def group_denominators(samples: list[Sample]) -> dict[str, float]:
    """Per trajectory: action tokens of its group times the number of groups, so groups weigh the same (after Eq. 8)."""
    tokens = Counter[str]()
    for sample in samples:
        tokens[sample.group_id] += sample.num_loss_tokens
    return {sample.trajectory_id: float(tokens[sample.group_id] * len(tokens)) for sample in samples}


def sequence_denominators(samples: list[Sample]) -> dict[str, float]:
    """Per trajectory: its own action tokens times the number of sequences, so sequences weigh the same."""
    return {sample.trajectory_id: float(sample.num_loss_tokens * len(samples)) for sample in samples}


def nll_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """Negative log-likelihood, the loss of rejection fine-tuning (paper §4.2): −Σ log p over the loss tokens, divided."""
    return -(logprobs / tokens.divisor(denominator)).sum(), {"loss/nll": -logprobs.detach().mean().item()}
