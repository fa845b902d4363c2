"""GSPO (arXiv 2507.18071, Eq. 5 to 7): importance ratios and clipping of whole sequences, as rewards belong to sequences.

Â = (R − mean) / (std + δ); s = (π(sequence) / π_old(sequence))^(1 / length); L = −mean over sequences of min(sÂ, clip(s, 1 −
ε_low, 1 + ε_high)Â).
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import clipped_surrogate, sequence_denominators
from turnsmith.config import Section
from turnsmith.types import Sample


class GspoOptions(Section):
    """Options of GSPO. Clipping distances are small, because a sequence's ratio is a geometric mean and close to 1."""

    sequence_clip_low: float = Field(3e-4, gt=0)
    """Lower clipping distance ε_low: the importance ratio of a sequence is at least 1 − ε_low."""
    sequence_clip_high: float = Field(4e-4, gt=0)
    """Upper clipping distance ε_high: the importance ratio of a sequence is at most 1 + ε_high."""


def make_loss(batch: list[Sample], options: GspoOptions) -> LossFn:
    low, high = options.sequence_clip_low, options.sequence_clip_high
    return partial(gspo_loss, denominator=sequence_denominators(batch), clip_eps_low=low, clip_eps_high=high)


def gspo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """Compute the GSPO loss: PPO's clipped objective with the ratios of sequences. `logprobs` has shape `[num_tokens]`."""
    log_ratio = tokens.spread(tokens.sequence_means(logprobs - tokens.old_logprobs))
    objective, metrics = clipped_surrogate(logprobs, log_ratio, tokens.advantages, clip_eps_low, clip_eps_high)
    return -(objective / tokens.divisor(denominator)).sum(), metrics


GSPO = Algorithm(normalised, make_loss, GspoOptions)
