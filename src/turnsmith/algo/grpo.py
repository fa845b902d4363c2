"""GRPO (DeepSeekMath, arXiv 2402.03300, Eq. 3 and 4) with outcome rewards (§4.1.2).

Â = (R − mean) / (std + δ); L = −mean over sequences of the mean over tokens of min(ρÂ, clip(ρ, 1 ± ε)Â) − β·KL(π ‖
π_ref).
"""

from functools import partial

from pydantic import Field, field_validator

from turnsmith.algo.advantages import NormalisedOptions, normalised
from turnsmith.algo.algorithm import Algorithm, Denominator, LossFn, LossTokens, Metrics, Tensor
from turnsmith.algo.losses import clamp_log_ratio, clipped_surrogate, sequence_denominators
from turnsmith.types import Sample


class GrpoOptions(NormalisedOptions):
    """Options of GRPO; `advantage_std` is set in the stage."""

    clip_eps: float = Field(0.2, gt=0)
    """The ratio is clipped to 1 ± this value."""
    beta: float = Field(0.0, ge=0)
    """Weight of the KL divergence from a reference policy, 0.04 in the paper; no trainer supports a value above 0 yet.
    """

    @field_validator("beta")
    @classmethod
    def _no_reference_yet(cls, beta: float) -> float:
        if beta > 0:
            raise ValueError(f"{beta:g} needs a reference policy, and no trainer has one yet: set beta = 0")
        return beta


def make_loss(batch: list[Sample], options: GrpoOptions) -> LossFn:
    """Make the loss of an optimizer batch."""
    return partial(grpo_loss, denominator=sequence_denominators(batch), clip_eps=options.clip_eps, beta=options.beta)


def grpo_loss(
    logprobs: Tensor, tokens: LossTokens, denominator: Denominator, *, clip_eps: float, beta: float
) -> tuple[Tensor, Metrics]:
    """Compute the clipped surrogate minus the KL term, averaged per sequence; `logprobs` has shape `[num_tokens]`."""
    log_ratio = logprobs - tokens.old_logprobs
    objective, metrics = clipped_surrogate(logprobs, log_ratio, tokens.advantages, clip_eps, clip_eps)
    if beta > 0:
        kl = kl_to_reference(logprobs, tokens)
        objective = objective - beta * kl
        metrics["loss/kl_ref"] = kl.detach().mean().item()
    return -(objective / tokens.divisor(denominator)).sum(), metrics


def kl_to_reference(logprobs: Tensor, tokens: LossTokens) -> Tensor:
    """Compute π_ref/π − log(π_ref/π) − 1 of each token (Eq. 4): unbiased and never negative."""
    assert tokens.ref_logprobs is not None, "GrpoOptions refuses beta > 0 without a reference"
    log_ratio = clamp_log_ratio(tokens.ref_logprobs - logprobs)
    return log_ratio.exp() - log_ratio - 1


GRPO = Algorithm(normalised, make_loss, GrpoOptions)
