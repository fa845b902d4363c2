"""Negative log-likelihood, the loss of rejection fine-tuning (paper §4.2)."""

from turnsmith.algo.algorithm import Denominator, LossTokens, Metrics, Tensor


def nll_loss(logprobs: Tensor, tokens: LossTokens, denominator: Denominator) -> tuple[Tensor, Metrics]:
    """−Σ log p over the loss tokens, divided; `logprobs` has shape `[num_tokens]`."""
    loss = -(logprobs / tokens.divisor(denominator)).sum()
    return loss, {"loss/nll": -logprobs.detach().mean().item()}
