"""Dr. GRPO (arXiv 2503.20783, §3.2): GRPO without the bias from sequence length and group deviation.

Â = R − mean; L = −mean over sequences of Σ min(ρÂ, clip(ρ, 1 ± ε)Â) / budget, with one constant budget.
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import centred
from turnsmith.algo.algorithm import Algorithm, LossFn
from turnsmith.algo.dapo import dapo_loss
from turnsmith.config import Section
from turnsmith.types import Sample


class DrGrpoOptions(Section):
    """Options of Dr. GRPO; the stage's `max_context` is the budget of a sequence (MAX_TOKENS in the paper)."""

    max_context: int
    clip_eps: float = Field(0.2, gt=0)
    """The ratio is clipped to 1 ± this value."""


def make_loss(batch: list[Sample], options: DrGrpoOptions) -> LossFn:
    """Make the loss of an optimizer batch; all tokens weigh the same, independent of sequence length."""
    denominator = float(len(batch) * options.max_context)
    return partial(dapo_loss, denominator=denominator, clip_eps_low=options.clip_eps, clip_eps_high=options.clip_eps)


DR_GRPO = Algorithm(centred, make_loss, DrGrpoOptions)
