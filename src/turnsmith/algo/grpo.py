"""GRPO (DeepSeekMath, arXiv 2402.03300, Eq. 3 and 4) with outcome rewards (§4.1.2).

Â = (R − mean) / (std + δ); L = −mean over sequences of the mean over tokens of min(ρÂ, clip(ρ, 1 ± ε)Â), ρ = π/π_old of each
token. The KL term of Eq. 3 is left out, because there is no reference policy.
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, LossFn
from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import sequence_denominators
from turnsmith.config import Section
from turnsmith.types import Sample


class GrpoOptions(Section):
    clip_eps: float = Field(0.2, gt=0)
    """Clipping distance ε: the importance ratio is clipped to [1 − ε, 1 + ε]."""


def make_loss(batch: list[Sample], options: GrpoOptions) -> LossFn:
    denominators = sequence_denominators(batch)
    return partial(dapo_loss, denominator=denominators, clip_eps_low=options.clip_eps, clip_eps_high=options.clip_eps)


GRPO = Algorithm(normalised, make_loss, GrpoOptions)
