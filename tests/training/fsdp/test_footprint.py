"""Memory that the formulas predict, compared with the memory that torch allocates, for layouts of ranks."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.config import OptimizerConfig, TrainerConfig
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.footprint import Footprint, find_footprint
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.training.local import LocalTrainer
from turnsmith.training.shape import find_shape
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

SIZES = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
NUM_TOKENS = 1_000
"""Tokens of each micro-batch. It holds two samples, and a quarter of its tokens are in the loss."""


@dataclass(frozen=True)
class Case:
    """Trainer whose memory is measured."""

    layout: RankLayout
    kind: str = "qwen2"
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    dtype: torch.dtype = torch.float32
    vocab_size: int = 512

    def make_model(self) -> PreTrainedModel:
        return make_model(self.kind, vocab_size=self.vocab_size, **SIZES)


FULL, SELECTIVE = (TrainerConfig(activation_checkpointing=mode) for mode in ("full", "selective"))
TILED = TrainerConfig(activation_checkpointing="full", mlp_tiles=4)
CASES = {
    "one process": Case(RankLayout()),
    "one process, full": Case(RankLayout(), trainer=FULL),
    "one process, tiles": Case(RankLayout(), trainer=TILED),
    "one process, bfloat16, selective, head_dim": Case(RankLayout(), "qwen3", SELECTIVE, torch.bfloat16),
    "one process, many logits": Case(RankLayout(), trainer=FULL, vocab_size=20_000),
    "2 shards": Case(RankLayout(2)),
    "2 shards, bfloat16, full": Case(RankLayout(2), "llama", FULL, torch.bfloat16),
    "cp 2": Case(RankLayout(2, cp=2)),
    "2 replicas x 2 shards": Case(RankLayout(4, dp_replicate=2), trainer=FULL),
    "cp 4, gather": Case(RankLayout(4, cp=4, cp_kind="gather")),
    "2 shards x cp 2, gather": Case(RankLayout(4, cp=2, cp_kind="gather"), trainer=FULL),
    "2 shards x cp 2": Case(RankLayout(4, cp=2), "llama", SELECTIVE),
}


def make_sample(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    length = NUM_TOKENS // 2
    mask = np.arange(length) % 4 == 3
    token_ids = rng.integers(0, 512, length)
    return add_tokenizer_provenance(Sample(f"t{seed}", "g", token_ids, mask, np.zeros(length), np.ones(length)))


def open_trainer(case: Case) -> Any:
    model = case.make_model()
    limit_activations(model, case.trainer)
    if case.layout.num_ranks == 1:
        return LocalTrainer(model, OptimizerConfig(), dtype=case.dtype)
    mesh = open_mesh(case.layout, torch.device("cpu"))
    return ShardedTrainer(shard_model(model, mesh, case.dtype), mesh, OptimizerConfig(), dtype=case.dtype)


def count_bytes(tensors: list[Tensor]) -> int:
    """Return the bytes of tensors on this rank."""
    return sum((each.to_local() if isinstance(each, DTensor) else each).nbytes for each in tensors)


def measure(case: Case) -> tuple[int, int, int, int]:
    """Measure weights, gradients, moments and the peak of all memory in an optimizer step of two rounds, in bytes."""
    torch.set_num_threads(1)
    trainer = open_trainer(case)
    batches = [MicroBatch([make_sample(2 * n), make_sample(2 * n + 1)]) for n in range(2 * case.layout.dp)]
    denominator = batch_denominator([sample for batch in batches for sample in batch.samples])
    step = partial(trainer.step, batches, partial(nll_loss, denominator=denominator))
    weights, gradients = list(trainer.model.parameters()), []
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.append(count_bytes([each.grad for each in weights])))
    asyncio.run(step())
    moments = [each for state in trainer.optimizer.state.values() for name, each in state.items() if "exp" in name]
    parts = count_bytes(weights), gradients[0], count_bytes(moments)
    # gloo's threads may hold a buffer for longer on a busy machine, which only adds to the peak.
    return *parts, parts[0] + parts[2] + min(peak_bytes(lambda: asyncio.run(step())) for _ in range(2))


def predict(case: Case) -> Footprint:
    shape = find_shape(case.make_model().config)
    sizes = {"itemsize": case.dtype.itemsize, "num_tokens": NUM_TOKENS, "num_targets": NUM_TOKENS // 4}
    return find_footprint(shape, case.trainer, case.layout, **sizes)


def measure_all(cases: list[Case]) -> list[tuple[int, int, int, int]]:
    return [measure(case) for case in cases]


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_predicted_memory_is_within_a_tenth_of_the_measured_peak(ranks, num_ranks):
    chosen = {name: case for name, case in CASES.items() if case.layout.num_ranks == num_ranks}
    measured = zip(*ranks(num_ranks, measure_all, list(chosen.values()), limit_s=280), strict=True)
    shares = {}
    for (name, case), of_ranks in zip(chosen.items(), measured, strict=True):
        expected = predict(case)
        weights, gradients, moments, peak = (min(values) for values in zip(*of_ranks, strict=True))
        casts = expected.weights - expected.gradients
        found = {"weights": weights + casts, "gradients": gradients, "moments": moments, "total": peak}
        shares |= {f"{name}: {part}": getattr(expected, part) / value for part, value in found.items()}
    assert {name: share for name, share in shares.items() if not 0.9 < share < 1.1} == {}
