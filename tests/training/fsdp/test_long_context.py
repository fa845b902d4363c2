"""131,072 tokens in one row: four ranks compute the update of one rank, and each needs a quarter of its memory."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from support.models.gradients import largest_error, read_gradients
from support.models.small_models import VOCABULARY, make_model
from support.peak_memory import peak_bytes
from support.sharded import CPU
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.config import OptimizerConfig
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

NUM_TOKENS, CP = 131_072, 4
SIZES = {
    "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 192, "head_dim": 16,
}  # fmt: skip
"""Sizes of a model whose weights are less than 1 % of the memory of a step."""


@dataclass(frozen=True)
class Case:
    """Update of one layer: kind of context parallelism, number of heads, and lengths of the samples in the row."""

    cp_kind: str
    num_heads: int
    lengths: tuple[int, ...]


CASES = {
    # Ulysses needs a head for each rank. Attention of four heads over one sample takes minutes.
    "Ulysses, four heads": Case("ulysses", 4, (32_768, *[16_384] * 6)),
    "gather, one sample": Case("gather", 1, (NUM_TOKENS,)),
}


@dataclass(frozen=True)
class Update:
    """Loss, gradients and peak of memory in bytes of an optimizer step."""

    loss: float
    gradients: dict[str, Tensor]
    peak: int


def make_sample(seed: int, length: int) -> Sample:
    """Make random tokens, of which every eighth is in the loss."""
    token_ids = np.random.default_rng(seed).integers(0, VOCABULARY, length)
    mask = np.arange(length) % 8 == 7
    return add_tokenizer_provenance(Sample(f"t{seed}", "g", token_ids, mask, np.zeros(length), np.ones(length)))


def update(case: Case) -> Update:
    """Make one optimizer step on the ranks of the default process group, all of which share one row."""
    num_ranks = torch.distributed.get_world_size()
    mesh = open_mesh(RankLayout(num_ranks, num_ranks, cp_kind=case.cp_kind), CPU)
    model = make_model("qwen3", num_attention_heads=case.num_heads, num_key_value_heads=case.num_heads, **SIZES)
    trainer = ShardedTrainer(shard_model(model, mesh), mesh, OptimizerConfig(grad_clip=1e9))
    gradients = dict[str, Tensor]()
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.update(read_gradients(model)))
    row = MicroBatch([make_sample(seed, length) for seed, length in enumerate(case.lengths)])
    step = partial(trainer.step, [row], partial(nll_loss, denominator=batch_denominator(row.samples)))
    metrics: dict[str, Any] = {}
    peak = peak_bytes(lambda: metrics.update(asyncio.run(step())))
    return Update(metrics["loss/total"], gradients, peak)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_four_ranks_equal_one_with_a_quarter_of_its_memory(ranks, case):
    [whole], parts = ranks(1, update, case), ranks(CP, update, case)
    assert sum(case.lengths) == NUM_TOKENS
    for part in parts:
        assert part.loss == pytest.approx(whole.loss, rel=0, abs=1e-5)
        assert largest_error(part.gradients, whole.gradients) < 1e-4
    assert all(part.peak * CP == pytest.approx(whole.peak, rel=0.15) for part in parts)
