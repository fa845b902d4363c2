"""Dr. GRPO (arXiv 2503.20783, §3.2): GRPO without the biases from sequence lengths and from the groups' standard deviations.

Â = R − mean; L = −mean over sequences of Σ min(ρÂ, clip(ρ, 1 ± ε)Â) / MAX_TOKENS, a constant; ρ = π/π_old of each token.
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import centred
from turnsmith.algo.algorithm import Algorithm, LossFn
from turnsmith.algo.dapo import dapo_loss
from turnsmith.config import Section
from turnsmith.types import Sample


class DrGrpoOptions(Section):
    """Options of Dr. GRPO. The loss of each sequence is divided by the stage's `max_context` (MAX_TOKENS in the paper)."""

    max_context: int
    clip_eps: float = Field(0.2, gt=0)
    """Clipping distance ε: the importance ratio is clipped to [1 − ε, 1 + ε]."""


def make_loss(batch: list[Sample], options: DrGrpoOptions) -> LossFn:
    """Make the Dr. GRPO loss function of an optimizer batch, in which all tokens have the same weight."""
    denominator = float(len(batch) * options.max_context)
    return partial(dapo_loss, denominator=denominator, clip_eps_low=options.clip_eps, clip_eps_high=options.clip_eps)


DR_GRPO = Algorithm(centred, make_loss, DrGrpoOptions)
