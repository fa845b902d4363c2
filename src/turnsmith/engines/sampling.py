"""Sampling by one given uniform number per token: from the policy itself, or in evaluations from what filters leave of it."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from turnsmith.types import SamplingParams


def draw_uniforms(seed: int, count: int) -> np.ndarray:
    """The noise of one turn: number i decides token i, whatever shares the batch; shape [count], in [0, 1)."""
    return np.random.default_rng(seed).random(count)


def sample(logits: Tensor, uniforms: Tensor, drawn_from: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Token ids and their fp32 log-probs, from logits `[rows, vocabulary]` and uniforms `[rows]` (float64), by inverse CDF.

    Tokens are drawn from other logits where there are any; log-probs are of the first in any case. The
    cumulative sum is in float64, so a token's share is right to its last place in vocabularies of any size.
    """
    logprobs = logits.float().log_softmax(-1)
    drawn = logprobs if drawn_from is None or drawn_from is logits else drawn_from.float().log_softmax(-1)
    cumulative = drawn.exp().cumsum(-1, dtype=torch.float64)
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    token_ids = torch.searchsorted(cumulative, thresholds, right=True).clamp_(max=logits.shape[1] - 1)
    return token_ids[:, 0], logprobs.gather(1, token_ids)[:, 0]


def shape_logits(logits: Tensor, params: SamplingParams, seen: Sequence[int]) -> Tensor:
    """Logits `[vocabulary]` as a model's own decoding has them: penalty for what was seen, temperature, top-k, top-p, min-p."""
    logits = _penalise(logits.float(), params.repetition_penalty, seen)
    if params.temperature == 0:
        return torch.full_like(logits, float("-inf")).index_fill(0, logits.argmax(), 0.0)
    logits = logits / params.temperature
    if params.top_k:
        logits = logits.where(logits >= logits.topk(min(params.top_k, len(logits))).values[-1], float("-inf"))
    if params.top_p < 1:
        logits = _keep_top_p(logits, params.top_p)
    shares = logits.softmax(-1)
    return logits.where(shares >= params.min_p * shares.max(), float("-inf"))


def _penalise(logits: Tensor, penalty: float, seen: Sequence[int]) -> Tensor:
    """Divide positive logits of tokens that were seen, multiply negative ones."""
    if penalty == 1:
        return logits
    tokens = torch.tensor(sorted(set(seen)), device=logits.device)
    values = logits[tokens]
    return logits.index_copy(0, tokens, torch.where(values > 0, values / penalty, values * penalty))


def _keep_top_p(logits: Tensor, top_p: float) -> Tensor:
    """The fewest tokens, likeliest first, whose shares add up to `top_p`."""
    shares, order = logits.softmax(-1).sort(descending=True, stable=True)
    dropped = order[shares.cumsum(-1) - shares >= top_p]
    return logits.index_fill(0, dropped, float("-inf"))
