"""Optimizer batches and steps, used by RFT and RL."""

from collections.abc import Awaitable, Callable, Sequence

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.packing import make_batches
from turnsmith.config import ImitationConfig, StageConfig
from turnsmith.tracking import Progress
from turnsmith.training.base import Trainer
from turnsmith.types import MicroBatch, Sample


def batch_samples(
    samples: list[Sample], limits: ImitationConfig | StageConfig, seed: int, *, share_prefixes: bool = False
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


async def keep_nothing(steps: Sequence[Metrics]) -> None:
    """Do nothing after a step."""


async def take_steps(
    trainer: Trainer,
    batches: Sequence[list[MicroBatch]],
    make_loss: Callable[[list[Sample]], LossFn],
    label: str,
    progress: Progress,
    *,
    done: list[Metrics] | None = None,
    on_step: Callable[[Sequence[Metrics]], Awaitable[None]] = keep_nothing,
) -> list[Metrics]:
    """Take one optimizer step for each batch, and return the metrics of each step.

    `done` holds the metrics of steps that were taken earlier, whose batches are skipped; new metrics are appended to it.
    `on_step` gets the metrics of all steps so far after each step.
    """
    steps: list[Metrics] = [] if done is None else done
    with progress.work(label, len(batches), len(steps)) as work:
        for batch in batches[len(steps) :]:
            loss_fn = make_loss([sample for packed in batch for sample in packed.samples])
            steps.append(await trainer.step(batch, loss_fn))
            work.advance(note=f"loss {steps[-1]['loss/total']:.3f}")
            await on_step(steps)
    return steps
