"""The ratio of a policy to the one that sampled, and the clipped surrogate of PPO (arXiv 1707.06347, Eq. 7).

Pure functions of tensors that share the shape `[num_tokens]`.
"""

from turnsmith.algo.algorithm import Metrics, Tensor

MAX_LOG_RATIO = 20.0
"""Bound on log-ratios before `exp`: a token that the two policies see e²⁰ apart must not make the loss infinite."""


def bounded(log_ratio: Tensor) -> Tensor:
    """Log-ratios whose exponential is finite."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float) -> Tensor:
    """min(ρÂ, clip(ρ, 1 − ε_low, 1 + ε_high)Â)."""
    clipped = ratio.clamp(1 - clip_eps_low, 1 + clip_eps_high)
    return (ratio * advantages).minimum(clipped * advantages)


def ratio_metrics(log_ratio: Tensor, advantages: Tensor, clip_eps_low: float, clip_eps_high: float) -> Metrics:
    """How far the policy moved; the clip counts only where it stops the gradient; KL(old ‖ new) by the k3 estimator."""
    log_ratio = log_ratio.detach()
    ratio = log_ratio.exp()
    return {
        "loss/ratio_mean": ratio.mean().item(),
        "loss/ratio_max": ratio.max().item(),
        "loss/clip_frac_low": ((advantages < 0) & (ratio < 1 - clip_eps_low)).float().mean().item(),
        "loss/clip_frac_high": ((advantages > 0) & (ratio > 1 + clip_eps_high)).float().mean().item(),
        "loss/kl_old_new": (ratio - 1 - log_ratio).mean().item(),
    }


def entropy_metric(logprobs: Tensor) -> Metrics:
    """Entropy of the policy, estimated by −log p of what was sampled."""
    return {"loss/entropy": -logprobs.detach().mean().item()}
