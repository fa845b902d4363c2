"""Training steps on ranks and in this process, with the same model, samples and loss."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from support.models.small_models import VOCABULARY, make_model
from turnsmith.algo.algorithm import Metrics, choose_algorithm
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig, StageConfig
from turnsmith.training.fsdp.mesh import Mesh, RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.training.local import LocalTrainer
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

torch.set_num_threads(1)

ONE = RankLayout()
CPU = torch.device("cpu")
OPTIMIZER = OptimizerConfig(learning_rate=1e-4, warmup_steps=2, grad_clip=1.0)
LOSSES = "cispo", "dapo", "dr_grpo", "grpo", "gspo", "rloo", "nll"


def make_sample(seed: int, length: int | None = None) -> Sample:
    """Make random tokens, about a quarter of them in the loss, never the first."""
    rng = random.Random(seed)
    length = length or rng.randint(2, 40)
    mask = [False] + [rng.random() < 0.25 for _ in range(length - 2)] + [True]
    sampled = [-4.0 - rng.uniform(-0.5, 0.5) if is_in_loss else 0.0 for is_in_loss in mask]
    columns = [rng.randrange(VOCABULARY) for _ in range(length)], mask, sampled, [rng.uniform(-2, 2)] * length
    return add_tokenizer_provenance(Sample(f"t{seed}", f"g{seed % 3}", *columns))


def make_batch(num_samples: int = 9, max_tokens: int = 64) -> list[MicroBatch]:
    """Pack random samples; the micro-batches have unequal lengths."""
    return pack([make_sample(seed) for seed in range(num_samples)], max_tokens)


def make_loss(name: str, micro_batches: list[MicroBatch]) -> Callable:
    """Make the loss of an algorithm with its default options, or of RFT (`nll`)."""
    samples = [sample for micro_batch in micro_batches for sample in micro_batch.samples]
    if name == "nll":
        return partial(nll_loss, denominator=batch_denominator(samples))
    _, loss_of = choose_algorithm(StageConfig(algorithm=name))
    return loss_of(samples)


@dataclass(frozen=True)
class Case:
    """Model, layout and loss of a comparison."""

    layout: RankLayout = ONE
    kind: str = "qwen3"
    changes: dict[str, Any] = field(default_factory=dict)
    loss: str = "dapo"
    dtype: torch.dtype = torch.float32
    num_steps: int = 2

    def make_model(self) -> Any:
        return make_model(self.kind, **self.changes)


@dataclass(frozen=True)
class Outcome:
    """Metrics of each step, weights after the last."""

    metrics: list[Metrics]
    weights: dict[str, Tensor]


def open_trainer(case: Case) -> ShardedTrainer:
    """Open the trainer of one rank."""
    mesh: Mesh = open_mesh(case.layout, CPU)
    return ShardedTrainer(shard_model(case.make_model(), mesh, case.dtype), mesh, OPTIMIZER, dtype=case.dtype)


def train_on_ranks(case: Case) -> Outcome:
    """Make the steps on the ranks of the default process group."""
    trainer = open_trainer(case)
    metrics = take_steps(trainer, case)
    weights = {name: parameter.full_tensor().detach() for name, parameter in trainer.model.named_parameters()}
    return Outcome(metrics, weights)


def train_here(case: Case) -> Outcome:
    """Make the same steps by `LocalTrainer`."""
    trainer = LocalTrainer(case.make_model(), OPTIMIZER, dtype=case.dtype)
    metrics = take_steps(trainer, case)
    return Outcome(metrics, {name: parameter.detach() for name, parameter in trainer.model.named_parameters()})


def take_steps(trainer: LocalTrainer | ShardedTrainer, case: Case) -> list[Metrics]:
    batch = make_batch()
    loss_fn = make_loss(case.loss, batch)

    async def take() -> list[Metrics]:
        return [await trainer.step(batch, loss_fn) for _ in range(case.num_steps)]

    return asyncio.run(take())
