"""What else could have drawn the tokens: temperatures and filters, weighed against the policy by likelihood.

Of tokens that the policy did draw, a ratio of likelihoods is 1 on average for every alternative, whatever the histories, so its
logarithm reaches x by chance at most once in exp(x) times (Ville's inequality). Entropy sees how much less surprising tokens are;
this sees, too, that what a filter forbids never comes, and says which filter. Logarithms of iterations add up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

LEAK = 0.01
"""Share of tokens that even a filtering engine may draw from the policy: one at the edge, where two programs round otherwise,
must not speak against the filter for good."""
MAX_RANK = 1_024
"""Tokens of a distribution that are sorted; a nucleus beyond them counts as just its share."""


@dataclass(frozen=True)
class Alternative:
    """One setting of a sampler, as `SamplingParams` names it."""

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
    """Log of alternative over policy, summed over what was sampled: `[tokens, vocabulary]` to `[alternatives]`, float64, nats."""
    sampled = Sampled(logits.float(), token_ids)
    return torch.stack([leaky(log_ratio(sampled, each)).double().sum() for each in alternatives])


def leaky(log_ratio: Tensor) -> Tensor:
    """The same of an engine that draws a few of its tokens from the policy."""
    return (LEAK + (1 - LEAK) * log_ratio.exp()).log()


class Sampled:
    """Distributions of a policy, `[tokens, vocabulary]`, and what was sampled from each."""

    def __init__(self, logits: Tensor, token_ids: Tensor) -> None:
        self.logits = logits
        self.token_ids = token_ids
        self.logprobs = logits.log_softmax(-1)
        self.own = self.logprobs.gather(1, token_ids[:, None])
        """Log-prob of each sampled token, `[tokens, 1]`."""
        self.falling = self.logprobs.topk(min(MAX_RANK, logits.size(1)), dim=-1).values.exp()
        """The largest shares, falling."""
        self.cumulated = self.falling.cumsum(-1)
        is_above = self.logprobs > self.own
        self.rank = is_above.sum(-1)
        """Number of tokens that are likelier."""
        self.share_above = (self.logprobs.exp() * is_above).sum(-1)


def log_ratio(sampled: Sampled, alternative: Alternative) -> Tensor:
    """Log of alternative over policy for each sampled token, `[tokens]`; −∞ where it forbids the token."""
    return RATIOS[alternative.kind](sampled, alternative.value)


def of_temperature(sampled: Sampled, temperature: float) -> Tensor:
    scores = (sampled.logits / temperature).log_softmax(-1)
    return (scores.gather(1, sampled.token_ids[:, None]) - sampled.own)[:, 0]


def of_top_k(sampled: Sampled, k: float) -> Tensor:
    last = min(int(k), sampled.falling.size(1)) - 1
    return of_filter(sampled.rank < k, sampled.cumulated[:, last])


def of_top_p(sampled: Sampled, top_p: float) -> Tensor:
    """The nucleus is the fewest likeliest tokens that have the share together."""
    ends = (sampled.cumulated < top_p).sum(-1, keepdim=True).clamp(max=sampled.falling.size(1) - 1)
    return of_filter(sampled.share_above < top_p, sampled.cumulated.gather(1, ends)[:, 0].clamp(min=top_p))


def of_min_p(sampled: Sampled, min_p: float) -> Tensor:
    least = min_p * sampled.falling[:, :1]
    kept = (sampled.falling * (sampled.falling >= least)).sum(-1)
    return of_filter(sampled.own[:, 0].exp() >= least[:, 0], kept)


def of_filter(is_kept: Tensor, share: Tensor) -> Tensor:
    """`share` is what the policy gives to all that is kept."""
    return (is_kept / share.clamp(max=1)).log()


RATIOS: Mapping[str, Callable[[Sampled, float], Tensor]] = {
    "temperature": of_temperature,
    "top_k": of_top_k,
    "top_p": of_top_p,
    "min_p": of_min_p,
}


def pool(before: Mapping[str, float], now: Mapping[Alternative, float], alarm: float) -> dict[Alternative, float]:
    """Evidence of iterations, by CUSUM: what spoke against an alternative is forgotten, since an engine may be honest for
    long, and then not. After an alarm all begins anew.

    Of the iterations of an honest run at most exp(−alarm) × the number of alternatives raise one, in the long run (e-detectors:
    Shin, Ramdas, Rinaldo, arXiv 2203.03532).
    """
    kept = {} if max(before.values(), default=0.0) >= alarm else before
    return {each: max(0.0, kept.get(str(each), 0.0)) + nats for each, nats in now.items()}


def find_best(evidence: Mapping[Alternative, float]) -> Alternative:
    """The alternative that the tokens speak for most."""
    return max(evidence, key=lambda each: evidence[each])


def least_evidence(num_alternatives: int, false_alarms: float) -> float:
    """Nats that the best of several alternatives reaches in at most this share of cases in which the policy drew."""
    return log(num_alternatives / false_alarms)
