"""Supervised training on samples of lessons."""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np

from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Sample, add_tokenizer_provenance


def make_sample(token_ids: Sequence[int] | np.ndarray, loss_mask: Sequence[bool] | np.ndarray) -> Sample:
    """Return a sample without log-probs of a sampler."""
    size = len(token_ids)
    columns = np.asarray(token_ids), np.asarray(loss_mask), np.zeros(size), np.ones(size)
    return add_tokenizer_provenance(Sample("lesson", "lessons", *columns))


def imitate(trainer: LocalTrainer, samples: list[Sample], max_tokens: int) -> float:
    """Make one optimizer step. Return the loss."""
    loss_fn = partial(nll_loss, denominator=batch_denominator(samples))
    return asyncio.run(trainer.step(pack(samples, max_tokens), loss_fn))["loss/nll"]
