"""What every stage that trains does with its samples: deals them into batches, and takes a step on each."""

from collections.abc import Callable, Sequence

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.packing import make_batches
from turnsmith.config import RFTConfig, StageConfig
from turnsmith.tracking import Progress
from turnsmith.training.base import Trainer
from turnsmith.types import MicroBatch, Sample


def deal(samples: list[Sample], limits: RFTConfig | StageConfig, seed: int) -> list[list[MicroBatch]]:
    """The optimizer batches of one pass over the samples, under the limits of a part of the run."""
    max_tokens = limits.optimizer.max_tokens_per_micro_batch
    return make_batches(samples, limits.batch_size, unit=limits.batch_unit, max_tokens=max_tokens, seed=seed)


async def take_steps(
    trainer: Trainer,
    batches: Sequence[list[MicroBatch]],
    make_loss: Callable[[list[Sample]], LossFn],
    label: str,
    progress: Progress,
) -> list[Metrics]:
    """One optimizer step for each batch; returns the metrics of each."""
    progress.begin(label, len(batches))
    steps: list[Metrics] = []
    for batch in batches:
        loss_fn = make_loss([sample for packed in batch for sample in packed.samples])
        steps.append(await trainer.step(batch, loss_fn))
        progress.advance(label, note=f"loss {steps[-1]['loss/total']:.3f}")
    progress.end(label)
    return steps
