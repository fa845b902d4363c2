"""Dr. GRPO (arXiv 2503.20783, §3.2): GRPO without what biases it, the length of a sequence and the deviation of a group.

Â = R − mean; L = −mean over sequences of Σ min(ρÂ, clip(ρ, 1 ± ε)Â) / budget, the budget being one constant for all.
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import centred
from turnsmith.algo.algorithm import Algorithm, LossFn
from turnsmith.algo.dapo import dapo_loss
from turnsmith.config import Section
from turnsmith.types import Sample


class DrGrpoOptions(Section):
    """`max_context`, a key of the stage, is the budget of a sequence: what its paper calls MAX_TOKENS."""

    max_context: int
    clip_eps: float = Field(0.2, gt=0)
    """The ratio is clipped to 1 ± this."""


def make_loss(batch: list[Sample], options: DrGrpoOptions) -> LossFn:
    """The loss of an optimizer batch; all tokens weigh the same, whatever the length of their sequence."""
    denominator = float(len(batch) * options.max_context)
    return partial(dapo_loss, denominator=denominator, clip_eps_low=options.clip_eps, clip_eps_high=options.clip_eps)


DR_GRPO = Algorithm(centred, make_loss, DrGrpoOptions)
