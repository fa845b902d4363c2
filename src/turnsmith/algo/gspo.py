"""GSPO (arXiv 2507.18071, Eq. 5 to 7): ratios and clips of whole sequences, matching their rewards.

Â = (R − mean) / (std + δ); s = (π(sequence) / π_old(sequence))^(1 / length); L = −mean over sequences of min(sÂ,
clip(s, 1 − ε_low, 1 + ε_high)Â).
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import clipped_surrogate, sequence_denominators
from turnsmith.config import Section
from turnsmith.types import Sample


class GspoOptions(Section):
    """Options of GSPO. Sequence ratios are far closer to 1 than token ratios."""

    sequence_clip_low: float = Field(3e-4, gt=0)
    """The ratio of a sequence is clipped below at 1 − this value."""
    sequence_clip_high: float = Field(4e-4, gt=0)
    """The ratio of a sequence is clipped above at 1 + this value."""


def make_loss(batch: list[Sample], options: GspoOptions) -> LossFn:
    """Make the loss of an optimizer batch."""
    low, high = options.sequence_clip_low, options.sequence_clip_high
    return partial(gspo_loss, denominator=sequence_denominators(batch), clip_eps_low=low, clip_eps_high=high)


def gspo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps_low: float, clip_eps_high: float
) -> tuple[Tensor, Metrics]:
    """Compute the clipped surrogate of each sequence, spread over its tokens; `logprobs` has shape `[num_tokens]`."""
    log_ratio = tokens.spread(tokens.sequence_means(logprobs - tokens.old_logprobs))
    objective, metrics = clipped_surrogate(logprobs, log_ratio, tokens.advantages, clip_eps_low, clip_eps_high)
    return -(objective / tokens.divisor(denominator)).sum(), metrics


GSPO = Algorithm(normalised, make_loss, GspoOptions)
