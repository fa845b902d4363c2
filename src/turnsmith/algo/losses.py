"""Building blocks of losses: PPO's clipped objective (arXiv 1707.06347, Eq. 7), denominators, rejection fine-tuning (RFT).

Tensors have shape `[num_tokens]`. A denominator covers the whole optimizer batch, so the losses of its micro-batches add up.
"""

from collections import Counter

from turnsmith.algo.algorithm import Denominator, LossTokens, Metrics, Tensor
from turnsmith.types import Sample

MAX_LOG_RATIO = 20.0
"""Maximum |log-ratio| before `exp`, which keeps the loss finite if two policies differ strongly on a token."""


def clamp_log_ratio(log_ratio: Tensor) -> Tensor:
    """Clamp log-ratios to ±MAX_LOG_RATIO, so that their exponentials are finite."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped_surrogate(
    logprobs: Tensor, log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """Compute PPO's objective min(ρÂ, clip(ρ, 1 − ε_low, 1 + ε_high)Â) of each token, and the metrics of the ratios ρ."""
    log_ratio = clamp_log_ratio(log_ratio)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - clip_eps_low, 1 + clip_eps_high)
    metrics = ratio_metrics(logprobs, log_ratio, advantages, clip_eps_low, clip_eps_high)
    return (ratio * advantages).minimum(clipped * advantages), metrics


def ratio_metrics(
    logprobs: Tensor, log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float
) -> Metrics:
    """Return metrics of importance ratios ρ. KL(old ‖ new) uses the k3 estimator, ρ − 1 − log ρ.

    Clip fractions are the shares of tokens that PPO clips: ρ < 1 − ε_low with Â < 0, or ρ > 1 + ε_high with Â > 0.
    """
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
    """Return a metric that estimates the policy's entropy by the mean of −log p over sampled tokens."""
    return {"loss/entropy": -logprobs.detach().mean().item()}


def batch_denominator(samples: list[Sample]) -> float:
    """Return the number of action tokens of a batch: the denominator that gives all tokens equal weights (paper §3.2)."""
    return float(sum(sample.num_loss_tokens for sample in samples))


def group_denominators(samples: list[Sample]) -> dict[str, float]:
    """Return trajectory id → denominator that gives all groups equal weights (paper, after Eq. 8).

    It is the number of action tokens of the trajectory's group, times the number of groups.
    """
    tokens = Counter[str]()
    for sample in samples:
        tokens[sample.group_id] += sample.num_loss_tokens
    return {sample.trajectory_id: float(tokens[sample.group_id] * len(tokens)) for sample in samples}


def sequence_denominators(samples: list[Sample]) -> dict[str, float]:
    """Return trajectory id → denominator for equal weights of all sequences: its tokens in the loss × number of sequences."""
    return {sample.trajectory_id: float(sample.num_loss_tokens * len(samples)) for sample in samples}


def nll_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """Compute the loss of rejection fine-tuning (paper §4.2): the sum over tokens of −log p / denominator."""
    return -(logprobs / tokens.divisor(denominator)).sum(), {"loss/nll": -logprobs.detach().mean().item()}
