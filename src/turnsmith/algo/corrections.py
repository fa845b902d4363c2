"""Truncated importance sampling, which corrects differences between the log-probs of engine and trainer.

Each token's loss is multiplied by min(π_old / π_sampler, cap), without a gradient through this weight. The method is by Yao
et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (blog post, August 2025,
fengyao.notion.site/off-policy-rl).
"""

from dataclasses import replace

import numpy as np

from turnsmith.algo.algorithm import Metrics
from turnsmith.types import Sample


def correct(sample: Sample, cap: float) -> Sample:
    """Return a sample whose advantages are multiplied by the importance weights.

    Every loss of `algo` is proportional to the token's advantage, so this multiplies the token's loss by its weight.
    """
    return replace(sample, advantages=sample.advantages * find_weights(sample, cap))


def find_weights(sample: Sample, cap: float) -> np.ndarray:
    """Compute the importance weight min(π_old / π_sampler, cap) of each token, float32; 1 for tokens that were not sampled."""
    assert sample.old_logprobs is not None, "samples are scored before they are corrected"
    # Cap before exp, which is then bounded above.
    log_ratio = np.minimum(sample.old_logprobs - sample.sampled_logprobs, np.log(cap))
    return np.where(sample.loss_mask, np.exp(log_ratio), 1.0).astype(np.float32)


def describe_weights(samples: list[Sample], cap: float) -> Metrics:
    """Return metrics of the importance weights: mean over tokens in the loss, and fraction of tokens at the cap."""
    weights = np.concatenate([find_weights(sample, cap)[sample.loss_mask] for sample in samples])
    at_cap = np.isclose(weights, cap, rtol=1e-6)
    return {"is/weight_mean": float(weights.mean(dtype=np.float64)), "is/capped_share": float(at_cap.mean())}
