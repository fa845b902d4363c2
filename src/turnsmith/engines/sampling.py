"""Sampling from the policy itself: temperature 1, no filter, one given uniform number per token."""

import numpy as np
import torch
from torch import Tensor


def draw_uniforms(seed: int, count: int) -> np.ndarray:
    """The noise of one turn: number i decides token i, whatever shares the batch; shape [count], in [0, 1)."""
    return np.random.default_rng(seed).random(count)


def sample(logits: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Token ids and their fp32 log-probs, from logits `[rows, vocabulary]` and uniforms `[rows]` (float64), by inverse CDF.

    The cumulative sum is in float64, so a token's share is right to its last place in vocabularies of any size.
    """
    logprobs = logits.float().log_softmax(-1)
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    token_ids = torch.searchsorted(cumulative, thresholds, right=True).clamp_(max=logits.shape[1] - 1)
    return token_ids[:, 0], logprobs.gather(1, token_ids)[:, 0]
