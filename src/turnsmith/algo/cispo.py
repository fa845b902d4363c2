"""CISPO (MiniMax-M1, arXiv 2506.13585, Eq. 4 and 5), which clips each token's weight and keeps the gradient of every token.

Â = (R − mean) / (std + δ); L = −Σ sg(min(ρ, 1 + ε)) Â log π / action tokens of the batch. ρ is π/π_old of each token, and sg
stops the gradient. As in the paper, ρ has no lower bound.
"""

from functools import partial

from pydantic import Field

from turnsmith.algo.advantages import normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import batch_denominator, clamp_log_ratio, ratio_metrics
from turnsmith.config import Section
from turnsmith.types import Sample


class CispoOptions(Section):
    max_weight: float = Field(5.0, gt=1)
    """Upper bound 1 + ε of each token's importance ratio. The paper gives no value; ScaleRL (arXiv 2510.13786) tries 4 to 8."""


def make_loss(batch: list[Sample], options: CispoOptions) -> LossFn:
    return partial(cispo_loss, denominator=batch_denominator(batch), max_weight=options.max_weight)


def cispo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, max_weight: float
) -> tuple[Tensor, Metrics]:
    """Compute the sum over tokens of −w Â log π / denominator; no gradient flows through the weight w = min(ρ, max_weight)."""
    log_ratio = clamp_log_ratio(logprobs - tokens.old_logprobs).detach()
    weight = log_ratio.exp().clamp(max=max_weight)
    loss = -(weight * tokens.advantages * logprobs / tokens.divisor(denominator)).sum()
    return loss, ratio_metrics(logprobs, log_ratio, tokens.advantages, 1.0, max_weight - 1)


CISPO = Algorithm(normalised, make_loss, CispoOptions)
