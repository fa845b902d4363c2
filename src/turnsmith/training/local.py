"""Trainer in this process: micro-batches and a loss function in, new weights out."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import Moments, OptimizerConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.weights import load_weights
from turnsmith.errors import TrainingError, UsageError
from turnsmith.training.account import count_work, describe_step
from turnsmith.training.base import Surprisal
from turnsmith.training.checkpoint import OLD_STATE, read_trainer_state, save_checkpoint
from turnsmith.training.generators import read_generators, restore_generators
from turnsmith.training.model import logprobs_of_sampled, surprisal_of_sampled
from turnsmith.training.optimizer import make_optimizer, schedule, set_learning_rate
from turnsmith.training.optimizer_state import FOLDER, copy_state, load_state
from turnsmith.training.provenance import check_provenance
from turnsmith.training.sampler_settings import ALTERNATIVES
from turnsmith.training.shape import find_shape
from turnsmith.training.stopwatch import Stopwatch
from turnsmith.types import MicroBatch

COUNTERS = ("num_steps", "total_steps", "policy_version")


class OptimizerSteps:
    """Model with its optimizer, learning-rate schedule and counters of steps."""

    def __init__(
        self,
        model: PreTrainedModel,
        config: OptimizerConfig,
        total_steps: int = 0,
        policy_version: int = 0,
        dtype: torch.dtype = torch.float32,
        moments: Moments = "float32",
    ) -> None:
        self.model = model
        self.dtype = dtype
        """Dtype in which the layers compute. Gradients have the dtype of the model's weights."""
        self.moments = moments
        self.config = config
        self.total_steps = total_steps
        self.num_steps = 0
        """Number of optimizer steps so far, on which the scheduled learning rate depends."""
        self.policy_version = policy_version
        """Number of weight updates of the policy, including those of earlier trainers."""
        self.optimizer = make_optimizer(model, config, moments)
        self._shape = find_shape(model.config)
        self._stopwatch = Stopwatch(model.device)

    def clip_gradient(self) -> float:
        """Clip the gradient to the configured global norm; return the norm before clipping."""
        total = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        norm = (total.full_tensor() if isinstance(total, DTensor) else total).item()
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient norm is {norm} at step {self.num_steps}")
        return norm

    def update(self) -> float:
        """Make one AdamW update with the scheduled learning rate, and free the gradients; return that rate."""
        learning_rate = self.config.learning_rate * schedule(self.num_steps, self.total_steps, self.config.warmup_steps)
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.num_steps += 1
        self.policy_version += 1
        return learning_rate

    def finish_step(self, parts: list[Metrics], micro_batches: list[MicroBatch]) -> Metrics:
        """Update the weights by the gradients of all micro-batches; return the metrics of the step, merged from `parts`."""
        metrics = merge_metrics(parts, [micro_batch.num_loss_tokens for micro_batch in micro_batches])
        metrics["loss/total"] = sum(part["loss/total"] for part in parts)
        with self._stopwatch.measure("optimizer"):
            metrics["optimizer/grad_norm"] = self.clip_gradient()
            metrics["optimizer/learning_rate"] = self.update()
        return metrics

    def read_counters(self) -> dict[str, int]:
        """Return the counters of steps and weight updates."""
        return {name: getattr(self, name) for name in COUNTERS}

    def restore_counters(self, counters: Mapping[str, int]) -> None:
        """Set the counters of steps and weight updates."""
        for name in COUNTERS:
            setattr(self, name, counters[name])

    def close(self) -> None:
        """Release the optimizer's state and the gradients, but not the model."""
        self.optimizer.state.clear()
        self.optimizer.zero_grad(set_to_none=True)


class LocalTrainer(OptimizerSteps):
    """Trainer that runs in this process. An in-process engine may use the same weights between steps."""

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """Make one optimizer step. Other asyncio tasks may run before it begins; once begun, it cannot be cancelled."""
        await asyncio.sleep(0)
        micro_batches = [micro_batch.join() for micro_batch in micro_batches]
        check_provenance(micro_batches)
        micro_batches = drop_without_loss_tokens(micro_batches)
        with self._stopwatch.measure("update"):
            metrics = self._take_step(micro_batches, loss_fn)
        seconds, work = self._stopwatch.read(), count_work(self._shape, micro_batches)
        return metrics | describe_step(work, seconds, self.model.device, self.dtype)

    def _take_step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        self.optimizer.zero_grad(set_to_none=True)
        parts = [self._accumulate(micro_batch, loss_fn) for micro_batch in micro_batches]
        return self.finish_step(parts, micro_batches)

    def _accumulate(self, micro_batch: MicroBatch, loss_fn: LossFn) -> Metrics:
        """Run the forward and backward pass of one micro-batch; add to the gradients and return its metrics."""
        logprobs = logprobs_of_sampled(self.model, micro_batch, self.dtype, self._stopwatch)
        loss, metrics = compute_loss(logprobs, micro_batch, loss_fn, self.num_steps)
        loss.backward()
        return metrics

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Map each trajectory id to the current log-probs of its tokens. Other asyncio tasks run between micro-batches."""
        rows: dict[str, np.ndarray] = {}
        for micro_batch in micro_batches:
            rows |= self._logprobs_now(micro_batch)
            await asyncio.sleep(0)
        return rows

    @torch.no_grad()
    def _logprobs_now(self, micro_batch: MicroBatch) -> dict[str, np.ndarray]:
        """Map each trajectory id to log-probs of its tokens: zeros, without a forward pass, if no token is in the loss."""
        if not micro_batch.num_loss_tokens:
            return fill_rows(micro_batch, torch.empty(0))
        return fill_rows(micro_batch, logprobs_of_sampled(self.model, micro_batch, self.dtype))

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Return the sums of `Surprisal` over the tokens in the loss. Other asyncio tasks run between micro-batches."""
        micro_batches, sums = drop_without_loss_tokens(micro_batches), zero_sums()
        for micro_batch in micro_batches:
            sums += surprisal_of_sampled(self.model, micro_batch, self.dtype).cpu()
            await asyncio.sleep(0)
        return make_surprisal(micro_batches, sums)

    async def publish(self) -> SharedWeights:
        """Return the trainer's own model, which an in-process engine need not copy."""
        return SharedWeights(self.policy_version, self.model)

    async def save(self, directory: Path) -> None:
        """Write a checkpoint from which `load` resumes exactly. It is also a Hugging Face model directory."""
        state = {"generators": [read_generators()], "moments": self.moments, **self.read_counters()}
        save_checkpoint(directory, self.model, state, copy_state(self.model, self.optimizer))

    async def load(self, directory: Path) -> None:
        """Load weights (in place), optimizer, schedule, counters and random state from a checkpoint of `save`."""
        state = read_trainer_state(directory)
        check_moments(state, self.moments, directory)
        load_weights(directory, self.model)
        if OLD_STATE in state:
            self.optimizer.load_state_dict(state[OLD_STATE])
            torch.set_rng_state(state["rng"])
        else:
            load_state(directory / FOLDER, self.model, self.optimizer)
            restore_generators(state["generators"][0])
        self.restore_counters(state)


def compute_loss(logprobs: Tensor, micro_batch: MicroBatch, loss_fn: LossFn, step: int) -> tuple[Tensor, Metrics]:
    """Compute the loss of a micro-batch, and its metrics with `loss/total`. Raises TrainingError if the loss is not finite."""
    loss, metrics = loss_fn(logprobs, LossTokens.of(micro_batch).to(logprobs.device))
    value = loss.item()
    if not math.isfinite(value):
        names = ", ".join(sample.trajectory_id for sample in micro_batch.samples[:3])
        raise TrainingError(f"the loss is {value} at step {step} (trajectories {names}, …)")
    return loss, metrics | {"loss/total": value}


def fill_rows(micro_batch: MicroBatch, values: Tensor) -> dict[str, np.ndarray]:
    """Map each trajectory id to a row of float32, parallel to its tokens: `values` at the tokens in the loss, 0 elsewhere."""
    rows = {sample.trajectory_id: np.zeros(len(sample), np.float32) for sample in micro_batch.samples}
    parts = values.cpu().split([sample.num_loss_tokens for sample in micro_batch.samples])
    for sample, part in zip(micro_batch.samples, parts, strict=True):
        rows[sample.trajectory_id][sample.loss_mask] = part.numpy()
    return rows


def zero_sums() -> Tensor:
    """Return zeros to which the results of `surprisal_of_sampled` are added."""
    return torch.zeros(3 + len(ALTERNATIVES), dtype=torch.float64)


def make_surprisal(micro_batches: list[MicroBatch], sums: Tensor) -> Surprisal:
    """Name the sums that `surprisal_of_sampled` returns."""
    (sampled, expected, variance, *nats), num = sums.tolist(), sum(m.num_loss_tokens for m in micro_batches)
    return Surprisal(num, sampled, expected, variance, dict(zip(ALTERNATIVES, nats, strict=True)))


def check_moments(state: dict[str, Any], moments: Moments, directory: Path) -> None:
    """Raise UsageError if the trainer state of a checkpoint has another kind of moments. Old checkpoints do not name theirs."""
    saved = state.get("moments", "float32")
    if saved != moments:
        raise UsageError(
            f"cannot resume from {directory}: its optimizer has moments of the kind {saved}, but trainer.moments is {moments}: "
            f"set it to {saved}"
        )


def drop_without_loss_tokens(micro_batches: list[MicroBatch]) -> list[MicroBatch]:
    """Drop the micro-batches that have no token in the loss. Raises ValueError if no micro-batch is left."""
    kept = [micro_batch for micro_batch in micro_batches if micro_batch.num_loss_tokens]
    if not kept:
        raise ValueError("an optimizer step needs at least one token in the loss, but the batch has none")
    return kept


def merge_metrics(parts: list[Metrics], weights: list[int]) -> Metrics:
    """Merge the metrics of micro-batches: names that end in `_max` by maximum, others by mean over tokens in the loss."""
    return {
        name: max(part[name] for part in parts)
        if name.endswith("_max")
        else sum(part[name] * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
        for name in parts[0]
    }
