"""RLOO, REINFORCE leave-one-out ("Back to Basics", arXiv 2402.14740). The baseline is the mean reward of the rest of the group.

Â = R − baseline; L = −mean over sequences of Â · log π(sequence). There is no importance ratio and no clipping, so
the gradient is unbiased only until an iteration's first update of the policy. The paper's KL penalty is left out.
"""

from functools import partial

from turnsmith.algo.advantages import leave_one_out
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import entropy_metric
from turnsmith.config import Section
from turnsmith.types import Sample


def make_loss(batch: list[Sample], options: Section) -> LossFn:
    return partial(rloo_loss, denominator=float(len(batch)))


def rloo_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """Compute the sum over tokens of −Â log π / denominator. `logprobs` has shape `[num_tokens]`."""
    loss = -(tokens.advantages * logprobs / tokens.divisor(denominator)).sum()
    return loss, entropy_metric(logprobs)


RLOO = Algorithm(leave_one_out, make_loss, Section)
