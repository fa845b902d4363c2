"""Sampling of tokens with one given uniform number per token, from the policy or, in evaluations, a filtered distribution."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from turnsmith.engines.torch.transfer import send
from turnsmith.types import SamplingParams


def draw_uniforms(seed: int, count: int) -> np.ndarray:
    """Draw the uniform numbers in [0, 1) that decide the tokens of one turn, independent of the batch; shape `[count]`."""
    return np.random.default_rng(seed).random(count)


def sample(logits: Tensor, uniforms: Tensor, drawn_from: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sample token ids by inverse CDF, from logits `[rows, vocabulary]` and uniforms `[rows]` (float64).

    Return also their fp32 log-probs under `logits`. If `drawn_from` is given, tokens are drawn from those logits instead. The
    cumulative sum is in float64, which is exact enough for large vocabularies.
    """
    logprobs = logits.float().log_softmax(-1)
    drawn = logprobs if drawn_from is None or drawn_from is logits else drawn_from.float().log_softmax(-1)
    cumulative = drawn.exp().cumsum(-1, dtype=torch.float64)
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    token_ids = torch.searchsorted(cumulative, thresholds, right=True).clamp_(max=logits.shape[1] - 1)
    return token_ids[:, 0], logprobs.gather(1, token_ids)[:, 0]


def shape_logits(logits: Tensor, params: SamplingParams, seen: Sequence[int]) -> Tensor:
    """Apply repetition penalty, temperature, top-k, top-p and min-p to logits `[vocabulary]`, as transformers does."""
    # A penalty of 1 changes nothing, so the tokens are not sent to the device.
    penalised = seen if params.repetition_penalty != 1 else []
    token_ids = cast(torch.LongTensor, send([np.array([penalised], np.int64)], logits.device)[0])
    scores = RepetitionPenaltyLogitsProcessor(params.repetition_penalty)(token_ids, logits.float()[None])
    if params.temperature == 0:
        return torch.full_like(scores[0], float("-inf")).index_fill(0, scores.argmax(), 0.0)
    warpers = [TemperatureLogitsWarper(params.temperature), TopKLogitsWarper(params.top_k or len(logits))]
    if params.top_p < 1:
        warpers.append(TopPLogitsWarper(params.top_p))
    return LogitsProcessorList([*warpers, MinPLogitsWarper(params.min_p)])(token_ids, scores)[0]
