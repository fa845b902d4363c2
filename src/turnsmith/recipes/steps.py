"""Optimizer batches and steps, used by RFT and RL."""

from collections.abc import Callable, Sequence

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.packing import make_batches
from turnsmith.config import RFTConfig, StageConfig
from turnsmith.tracking import Progress
from turnsmith.training.base import Trainer
from turnsmith.types import MicroBatch, Sample


def batch_samples(
    samples: list[Sample], limits: RFTConfig | StageConfig, seed: int, *, share_prefixes: bool = False
) -> list[list[MicroBatch]]:
    """Split samples into optimizer batches in an order drawn by `seed`; a batch is a list of micro-batches."""
    return make_batches(
        samples,
        limits.batch_size,
        unit=limits.batch_unit,
        max_tokens=limits.optimizer.max_tokens_per_micro_batch,
        seed=seed,
        share_prefixes=share_prefixes,
    )


async def take_steps(
    trainer: Trainer,
    batches: Sequence[list[MicroBatch]],
    make_loss: Callable[[list[Sample]], LossFn],
    label: str,
    progress: Progress,
) -> list[Metrics]:
    """Take one optimizer step for each batch, and return the metrics of each step."""
    steps: list[Metrics] = []
    with progress.work(label, len(batches)) as work:
        for batch in batches:
            loss_fn = make_loss([sample for packed in batch for sample in packed.samples])
            steps.append(await trainer.step(batch, loss_fn))
            work.advance(note=f"loss {steps[-1]['loss/total']:.3f}")
    return steps
