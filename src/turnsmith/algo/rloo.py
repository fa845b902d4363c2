"""RLOO, REINFORCE leave-one-out ("Back to Basics", arXiv 2402.14740): a trajectory is one action, its siblings the baseline.

Â = R − mean of the others; L = −mean over sequences of Â · log π(sequence). There is no ratio and no clip: its estimate is
exact for the first optimizer step of an iteration. Its KL term, which it takes off the reward, is left out.
"""

from functools import partial

from turnsmith.algo.advantages import leave_one_out
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import entropy_metric
from turnsmith.config import Section
from turnsmith.types import Sample


def make_loss(batch: list[Sample], options: Section) -> LossFn:
    """The loss of an optimizer batch."""
    return partial(rloo_loss, denominator=float(len(batch)))


def rloo_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """−Â log π over all tokens, divided; `logprobs` has shape `[num_tokens]`."""
    loss = -(tokens.advantages * logprobs / tokens.divisor(denominator)).sum()
    return loss, entropy_metric(logprobs)


RLOO = Algorithm(leave_one_out, make_loss, Section)
