"""Truncated importance sampling: what remains between engine and trainer, corrected token by token.

min(π_old / π_sampler, cap) weighs the loss of each token, no gradient through it (Yao et al., "Your Efficient RL Framework
Secretly Brings You Off-Policy RL Training", fengyao.notion.site/off-policy-rl, August 2025: a post, no paper). IcePop (Ring-1T,
arXiv 2510.18855) drops tokens beyond a band of ratios where this caps them.
"""

from dataclasses import replace

import numpy as np

from turnsmith.algo.algorithm import Metrics
from turnsmith.types import Sample


def correct(sample: Sample, cap: float) -> Sample:
    """The sample with its advantages weighed.

    Every loss here is of advantages times something, token by token, and a weight is never negative: to weigh the advantage is to
    weigh the loss, through the minimum of the clip as well.
    """
    return replace(sample, advantages=sample.advantages * find_weights(sample, cap))


def find_weights(sample: Sample, cap: float) -> np.ndarray:
    """min(π_old / π_sampler, cap) of each token, float32; 1 where nothing was sampled."""
    assert sample.old_logprobs is not None, "who corrects has scored"
    # The cap goes on first: what exp sees is then bounded above.
    log_ratio = np.minimum(sample.old_logprobs - sample.sampled_logprobs, np.log(cap))
    return np.where(sample.loss_mask, np.exp(log_ratio), 1.0).astype(np.float32)


def describe_weights(samples: list[Sample], cap: float) -> Metrics:
    """Mean of the weights over loss tokens, and the share of tokens at the cap."""
    weights = np.concatenate([find_weights(sample, cap)[sample.loss_mask] for sample in samples])
    at_cap = np.isclose(weights, cap, rtol=1e-6)
    return {"is/weight_mean": float(weights.mean(dtype=np.float64)), "is/capped_share": float(at_cap.mean())}
