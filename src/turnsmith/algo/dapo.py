"""DAPO (arXiv 2503.14476, Eq. 8) as in arXiv 2508.03501, Eq. 8: no KL term, asymmetric clip per token.

Â = (R − mean) / (std + δ); L = −Σ min(ρÂ, clip(ρ, 1 − ε_low, 1 + ε_high)Â) / denominator,
ρ = π/π_old of each token. `denominator` is the number of action tokens, of the batch by default.
"""

from functools import partial
from typing import Literal

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import batch_denominator, clipped_surrogate, group_denominators
from turnsmith.config import Section
from turnsmith.types import Sample


class DapoOptions(Section):
    """Options of DAPO, all of which are keys of the stage."""

    clip_eps_low: float
    clip_eps_high: float
    denominator: Literal["batch", "group"]


def make_loss(batch: list[Sample], options: DapoOptions) -> LossFn:
    """Make the DAPO loss function of a batch. `options.denominator` divides by action tokens of the batch or of each group."""
    count = group_denominators if options.denominator == "group" else batch_denominator
    low, high = options.clip_eps_low, options.clip_eps_high
    return partial(dapo_loss, denominator=count(batch), clip_eps_low=low, clip_eps_high=high)


def dapo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """Compute minus the sum over tokens of PPO's clipped objective / denominator. `logprobs` has shape `[num_tokens]`."""
    log_ratio = logprobs - tokens.old_logprobs
    objective, metrics = clipped_surrogate(logprobs, log_ratio, tokens.advantages, clip_eps_low, clip_eps_high)
    return -(objective / tokens.divisor(denominator)).sum(), metrics


DAPO = Algorithm(normalised, make_loss, DapoOptions)
