"""Test for a sampler that does not draw from the policy: likelihood of its tokens under other temperatures and filters.

The likelihood ratio divides the probability of the tokens under a setting by that under the policy. Its mean is 1 if the
tokens are drawn from the policy, whatever tokens came before. So its logarithm reaches x with probability at most exp(−x)
(Ville's inequality). The logarithms of several iterations are added.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

LEAK = 0.01
"""Share of tokens assumed to be drawn without a filter; else one token that rounding moves out of it gives likelihood 0."""
MAX_RANK = 1_024
"""Number of most likely tokens that are sorted. A top-p filter that keeps more tokens is approximated."""


@dataclass(frozen=True)
class Alternative:
    """Sampler setting that a faulty engine may use, unlike the policy: a field of `SamplingParams` and its value."""

    kind: str
    value: float

    def __str__(self) -> str:
        return f"{self.kind} {self.value:g}"


VALUES: Mapping[str, tuple[float, ...]] = {
    "temperature": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.5),
    "top_k": (1, 2, 3, 4, 5, 8, 10, 15, 20, 30, 40, 50, 64, 100),
    "top_p": (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99),
    "min_p": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
}
ALTERNATIVES = tuple(Alternative(kind, value) for kind, values in VALUES.items() for value in values)


def weigh(logits: Tensor, token_ids: Tensor, alternatives: tuple[Alternative, ...] = ALTERNATIVES) -> Tensor:
    """Sum log(p under an alternative sampler setting / p under the policy) over the sampled tokens.

    Input `[tokens, vocabulary]`, output `[alternatives]`, float64, nats.
    """
    sampled = Sampled(logits.float(), token_ids)
    return torch.stack([mix_with_policy(log_ratio(sampled, each)).double().sum() for each in alternatives])


def mix_with_policy(log_ratio: Tensor) -> Tensor:
    """Convert a setting's log-likelihood ratios to those of a sampler that draws a fraction `LEAK` from the policy itself."""
    return (LEAK + (1 - LEAK) * log_ratio.exp()).log()


class Sampled:
    """Policy's distributions `[tokens, vocabulary]` and the token sampled from each."""

    def __init__(self, logits: Tensor, token_ids: Tensor) -> None:
        self.logits = logits
        self.token_ids = token_ids
        self.logprobs = logits.log_softmax(-1)
        self.own = self.logprobs.gather(1, token_ids[:, None])
        """Log-prob of each sampled token under the policy, `[tokens, 1]`."""
        self.falling = self.logprobs.topk(min(MAX_RANK, logits.size(1)), dim=-1).values.exp()
        """Largest probabilities of each distribution in descending order, `[tokens, ranks]`."""
        self.cumulated = self.falling.cumsum(-1)
        is_above = self.logprobs > self.own
        self.rank = is_above.sum(-1)
        """Number of tokens more likely than each sampled token, `[tokens]`."""
        self.share_above = (self.logprobs.exp() * is_above).sum(-1)


def log_ratio(sampled: Sampled, alternative: Alternative) -> Tensor:
    """Return log(p under a sampler setting / p under the policy) of each sampled token, `[tokens]`; −∞ for filtered tokens."""
    return RATIOS[alternative.kind](sampled, alternative.value)


def of_temperature(sampled: Sampled, temperature: float) -> Tensor:
    scores = (sampled.logits / temperature).log_softmax(-1)
    return (scores.gather(1, sampled.token_ids[:, None]) - sampled.own)[:, 0]


def of_top_k(sampled: Sampled, k: float) -> Tensor:
    last = min(int(k), sampled.falling.size(1)) - 1
    return of_filter(sampled.rank < k, sampled.cumulated[:, last])


def of_top_p(sampled: Sampled, top_p: float) -> Tensor:
    """Return the log-likelihood ratios of top-p, which keeps the fewest most likely tokens of total probability `top_p`."""
    ends = (sampled.cumulated < top_p).sum(-1, keepdim=True).clamp(max=sampled.falling.size(1) - 1)
    return of_filter(sampled.share_above < top_p, sampled.cumulated.gather(1, ends)[:, 0].clamp(min=top_p))


def of_min_p(sampled: Sampled, min_p: float) -> Tensor:
    least = min_p * sampled.falling[:, :1]
    kept = (sampled.falling * (sampled.falling >= least)).sum(-1)
    return of_filter(sampled.own[:, 0].exp() >= least[:, 0], kept)


def of_filter(is_kept: Tensor, share: Tensor) -> Tensor:
    """Return the log-likelihood ratios of a filter.

    `share` is the policy's total probability of the tokens that the filter keeps.
    """
    return (is_kept / share.clamp(max=1)).log()


RATIOS: Mapping[str, Callable[[Sampled, float], Tensor]] = {
    "temperature": of_temperature,
    "top_k": of_top_k,
    "top_p": of_top_p,
    "min_p": of_min_p,
}


def pool(before: Mapping[str, float], now: Mapping[Alternative, float], alarm: float) -> dict[Alternative, float]:
    """Add an iteration's log-likelihood ratio of each sampler setting to that of earlier iterations, as cumulative sums (CUSUM).

    Negative sums are reset to 0, since an engine may become faulty later. If a sum reached `alarm`, all sums restart from 0.
    With a correct engine, a sum reaches `alarm` in at most a fraction len(now) × exp(−alarm) of many iterations (e-detectors:
    Shin, Ramdas, Rinaldo, arXiv 2203.03532).
    """
    kept = {} if max(before.values(), default=0.0) >= alarm else before
    return {each: max(0.0, kept.get(str(each), 0.0)) + nats for each, nats in now.items()}


def find_best(evidence: Mapping[Alternative, float]) -> Alternative:
    """Return the alternative sampler setting with the largest log-likelihood ratio."""
    return max(evidence, key=lambda each: evidence[each])


def least_evidence(num_alternatives: int, false_alarms: float) -> float:
    """Return a bound (nats) that settings' log-likelihood ratios exceed with a correct engine at most at rate `false_alarms`."""
    return log(num_alternatives / false_alarms)
