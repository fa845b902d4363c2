"""GRPO (DeepSeekMath, arXiv 2402.03300, Eq. 3 and 4) with outcome rewards (§4.1.2).

Â = (R − mean) / (std + δ); L = −mean over sequences of the mean over tokens of min(ρÂ, clip(ρ, 1 ± ε)Â). The KL term of
Eq. 3 is left out (β = 0).
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import clipped_surrogate, sequence_denominators
from turnsmith.config import Section
from turnsmith.types import Sample


class GrpoOptions(Section):
    """Options of GRPO."""

    clip_eps: float = Field(0.2, gt=0)
    """Clipping distance ε: the importance ratio is clipped to [1 − ε, 1 + ε]."""
    beta: float = Field(0.0, ge=0, le=0)
    """Weight of the KL term. Only 0 is accepted, because there is no reference policy."""


def make_loss(batch: list[Sample], options: GrpoOptions) -> LossFn:
    """Make the GRPO loss function of an optimizer batch."""
    return partial(grpo_loss, denominator=sequence_denominators(batch), clip_eps=options.clip_eps)


def grpo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps: float
) -> tuple[Tensor, Metrics]:
    """Compute minus PPO's clipped objective, averaged per sequence. `logprobs` has shape `[num_tokens]`."""
    log_ratio = logprobs - tokens.old_logprobs
    objective, metrics = clipped_surrogate(logprobs, log_ratio, tokens.advantages, clip_eps, clip_eps)
    return -(objective / tokens.divisor(denominator)).sum(), metrics


GRPO = Algorithm(normalised, make_loss, GrpoOptions)
