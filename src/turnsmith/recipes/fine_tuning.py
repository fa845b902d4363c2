"""Supervised fine-tuning on samples, for cold start and RFT. It is saved at intervals, and a resumed run continues there."""

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.config import ImitationConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.steps import batch_samples, take_steps
from turnsmith.rollouts.rollout import draw_seed
from turnsmith.runs.folder import read_json, write_json
from turnsmith.training.account import merge_accounts
from turnsmith.training.base import Trainer
from turnsmith.types import MicroBatch, Sample

TITLES = {"cold_start": "cold start", "rft": "RFT"}
"""Part of the recipe → its name in messages."""


async def load_finished(part: str, run: RunContext) -> bool:
    """Load the checkpoint of a part of the recipe if it is finished; return False if it is not."""
    files = run.folder.iteration(part, 0)
    if not files.metrics.exists():
        return False
    shutil.rmtree(files.saves, ignore_errors=True)  # a kill may have left them
    await run.token_policy.take(SavedWeights(read_json(files.metrics)["policy/version"], files.checkpoint))
    return True


async def fine_tune(
    part: str, limits: ImitationConfig, samples: list[Sample], counts: Metrics, run: RunContext
) -> None:
    """Train the policy on samples, or continue such a training, and write its checkpoint and metrics. Raises UsageError."""
    policy, files = run.token_policy, run.folder.iteration(part, 0)
    seed, title = run.config.seed, TITLES[part]
    batches = make_epochs(samples, part, limits, seed, share_prefixes=run.config.trainer.share_prefixes)
    saver = Saver(files.saves, limits, digest_batches(batches))
    await policy.rest()
    with closing(await policy.start_training(limits.optimizer, total_steps=len(batches))) as trainer:
        steps = await saver.restore(trainer)
        if steps:
            run.progress.log(f"{title}: continues after step {len(steps)} of {len(batches)}")
        on_step = partial(saver.save_if_due, trainer)
        await take_steps(trainer, batches, make_loss, f"{title}: training", run.progress, done=steps, on_step=on_step)
        await trainer.save(files.checkpoint)
        await policy.take(await trainer.publish(), files.checkpoint)
    sources = [sample.provenance.source for sample in samples if sample.provenance]
    metrics = counts | {
        "loss/nll_first": steps[0]["loss/nll"],
        "loss/nll_last": steps[-1]["loss/nll"],
        "optimizer/steps": len(steps),
        "samples/retokenised": float(sources.count("tokenizer")),
        "policy/version": policy.weights.policy_version,
        **merge_accounts(steps),
    }
    write_json(files.steps, steps)
    write_json(files.metrics, metrics)
    saver.clear()
    run.progress.log(f"{title}: kept {len(samples)} trajectories, {len(steps)} steps")


def make_epochs(
    samples: list[Sample], part: str, limits: ImitationConfig, seed: int, *, share_prefixes: bool = False
) -> list[list[MicroBatch]]:
    """Make the optimizer batches of all epochs, each epoch in an order of its own."""
    seeds = [draw_seed(f"{seed}/{part}/{epoch}/batches") for epoch in range(limits.epochs)]
    return [batch for seed in seeds for batch in batch_samples(samples, limits, seed, share_prefixes=share_prefixes)]


def make_loss(batch: list[Sample]) -> LossFn:
    """Make the loss of one optimizer batch: negative log-likelihood, averaged over the loss tokens of the batch."""
    return partial(nll_loss, denominator=batch_denominator(batch))


def digest_batches(batches: Sequence[list[MicroBatch]]) -> str:
    """Return the SHA-256 of the tokens and loss masks of all batches in hex, by which a resumed training checks its data."""
    digest = hashlib.sha256()
    for sample in (sample for batch in batches for packed in batch for sample in packed.samples):
        digest.update(sample.token_ids.tobytes() + sample.loss_mask.tobytes())
    return digest.hexdigest()


@dataclass
class Saver:
    """Saver of a training in progress. `0040/` holds the checkpoint after 40 steps, `0040.json` the metrics of these steps."""

    folder: Path
    limits: ImitationConfig
    digest: str
    """Digest of the training data."""
    saved_at_s: float = field(default_factory=time.monotonic)

    async def restore(self, trainer: Trainer) -> list[Metrics]:
        """Load the last save into the trainer, if any, and return the metrics of its steps. Raises UsageError."""
        saved = max(self.list_saves(), default=0)
        if not saved:
            return []
        record = read_json(self.name_record(saved))
        if record["digest"] != self.digest:
            raise UsageError(
                f"{self.folder} holds a training on other data, since conversations or settings changed: restore them, or "
                "delete this folder to train from the beginning"
            )
        await trainer.load(self.name_checkpoint(saved))
        return list(record["steps"])

    async def save_if_due(self, trainer: Trainer, steps: Sequence[Metrics]) -> None:
        """Save the training if it is due, and remove the older saves."""
        if not self.is_due():
            return
        older = self.list_saves()
        write_json(self.name_record(len(steps)), {"digest": self.digest, "steps": list(steps)})
        await trainer.save(self.name_checkpoint(len(steps)))
        for number in older:
            shutil.rmtree(self.name_checkpoint(number), ignore_errors=True)
            self.name_record(number).unlink(missing_ok=True)
        self.saved_at_s = time.monotonic()

    def is_due(self) -> bool:
        """Return True if enough minutes have passed since the last save."""
        return time.monotonic() - self.saved_at_s >= 60 * self.limits.save_minutes

    def list_saves(self) -> list[int]:
        """List the numbers of steps after which complete saves exist."""
        return [int(path.name) for path in self.folder.glob("[0-9]*") if path.is_dir()]

    def name_checkpoint(self, num_steps: int) -> Path:
        return self.folder / f"{num_steps:04}"

    def name_record(self, num_steps: int) -> Path:
        return self.folder / f"{num_steps:04}.json"

    def clear(self) -> None:
        """Delete all saves."""
        shutil.rmtree(self.folder, ignore_errors=True)
