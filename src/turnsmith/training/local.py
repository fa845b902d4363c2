"""A trainer inside of this process: micro-batches and a loss function in, new weights out."""

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.errors import TrainingError
from turnsmith.provenance import check_provenance
from turnsmith.training.alternatives import ALTERNATIVES
from turnsmith.training.base import Surprisal
from turnsmith.training.checkpoint import load_checkpoint, save_checkpoint
from turnsmith.training.model import logprobs_of_sampled, surprisal_of_sampled
from turnsmith.types import MicroBatch

COUNTERS = ("num_steps", "total_steps", "policy_version")


class LocalTrainer:
    """Owns the weights and the optimizer. An engine may read the same weights between steps."""

    def __init__(
        self,
        model: PreTrainedModel,
        config: OptimizerConfig,
        total_steps: int = 0,
        policy_version: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model = model
        self.dtype = dtype
        """What the layers compute in; weights, gradients and moments are as the model's weights."""
        self.config = config
        self.total_steps = total_steps
        self.num_steps = 0
        """Optimizer steps that this trainer has made."""
        self.policy_version = policy_version
        """Weight updates that the policy has seen, other trainers' included."""
        self.optimizer = make_optimizer(model, config)

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """One optimizer step; before it, others may run, and it can be cancelled."""
        await asyncio.sleep(0)
        micro_batches = [micro_batch.join() for micro_batch in micro_batches]
        check_provenance(micro_batches)
        micro_batches = with_loss_tokens(micro_batches)
        self.optimizer.zero_grad(set_to_none=True)
        parts = [self._accumulate(micro_batch, loss_fn) for micro_batch in micro_batches]
        metrics = merge_metrics(parts, [micro_batch.num_loss_tokens for micro_batch in micro_batches])
        metrics["loss/total"] = sum(part["loss/total"] for part in parts)
        metrics["optimizer/grad_norm"] = self._clip_gradient()
        metrics["optimizer/learning_rate"] = self._update()
        return metrics

    def _accumulate(self, micro_batch: MicroBatch, loss_fn: LossFn) -> Metrics:
        """Forward and backward of one micro-batch; gradients add up in the parameters."""
        logprobs = logprobs_of_sampled(self.model, micro_batch, self.dtype)
        loss, metrics = loss_fn(logprobs, LossTokens.of(micro_batch).to(logprobs.device))
        value = loss.item()
        if not math.isfinite(value):
            names = ", ".join(sample.trajectory_id for sample in micro_batch.samples[:3])
            raise TrainingError(f"the loss is {value} at step {self.num_steps} (micro-batch of {names}, …)")
        loss.backward()
        return metrics | {"loss/total": value}

    def _clip_gradient(self) -> float:
        """Bound the global norm of the gradient; returns the norm before."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip).item()
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient norm is {norm} at step {self.num_steps}")
        return norm

    def _update(self) -> float:
        """One AdamW update; returns the learning rate that it used."""
        learning_rate = self.config.learning_rate * schedule(self.num_steps, self.total_steps, self.config)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.num_steps += 1
        self.policy_version += 1
        return learning_rate

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Log-probs now, by trajectory id; between micro-batches others may run."""
        rows: dict[str, np.ndarray] = {}
        for micro_batch in micro_batches:
            rows |= self._logprobs_now(micro_batch)
            await asyncio.sleep(0)
        return rows

    @torch.no_grad()
    def _logprobs_now(self, micro_batch: MicroBatch) -> dict[str, np.ndarray]:
        """Of one micro-batch; without loss tokens it needs no forward pass."""
        samples = micro_batch.samples
        rows = {sample.trajectory_id: np.zeros(len(sample), np.float32) for sample in samples}
        if micro_batch.num_loss_tokens:
            values = logprobs_of_sampled(self.model, micro_batch, self.dtype).cpu()
            for sample, part in zip(samples, values.split([s.num_loss_tokens for s in samples]), strict=True):
                rows[sample.trajectory_id][sample.loss_mask] = part.numpy()
        return rows

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """How surprising the loss tokens are to the policy now; between micro-batches others may run."""
        micro_batches, sums = with_loss_tokens(micro_batches), torch.zeros(3 + len(ALTERNATIVES), dtype=torch.float64)
        for micro_batch in micro_batches:
            sums += surprisal_of_sampled(self.model, micro_batch, self.dtype).cpu()
            await asyncio.sleep(0)
        (sampled, expected, variance, *nats), num = sums.tolist(), sum(m.num_loss_tokens for m in micro_batches)
        return Surprisal(num, sampled, expected, variance, dict(zip(ALTERNATIVES, nats, strict=True)))

    async def publish(self) -> SharedWeights:
        """The model itself: an engine that samples from it has nothing to copy."""
        return SharedWeights(self.policy_version, self.model)

    def close(self) -> None:
        """Let go of the optimizer's state and the gradients; the model may be someone else's too."""
        self.optimizer.state.clear()
        self.optimizer.zero_grad(set_to_none=True)

    async def save(self, directory: Path) -> None:
        """Write a checkpoint that `load` resumes exactly and that is also a Hugging Face model directory."""
        counters = {name: getattr(self, name) for name in COUNTERS}
        state = {"optimizer": self.optimizer.state_dict(), "rng": torch.get_rng_state(), **counters}
        save_checkpoint(directory, self.model, state)

    async def load(self, directory: Path) -> None:
        """Resume from a checkpoint of `save`: weights (in place), optimizer, schedule, counters, random state."""
        state: dict[str, Any] = load_checkpoint(directory, self.model)
        self.optimizer.load_state_dict(state["optimizer"])
        for name in COUNTERS:
            setattr(self, name, state[name])
        torch.set_rng_state(state["rng"])


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW with decay on matrices only: decaying norms and biases pulls them to zero, which is not their neutral value."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.eps, fused=True)


def schedule(step: int, total_steps: int, config: OptimizerConfig) -> float:
    """Share of the peak learning rate at a step: linear warm-up, then constant, or cosine to zero."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    progress = (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def with_loss_tokens(micro_batches: list[MicroBatch]) -> list[MicroBatch]:
    """Drop micro-batches that have nothing to learn from. Raises ValueError where none is left."""
    kept = [micro_batch for micro_batch in micro_batches if micro_batch.num_loss_tokens]
    if not kept:
        raise ValueError("an optimizer step needs at least one sampled token, but the batch has no loss tokens")
    return kept


def merge_metrics(parts: list[Metrics], weights: list[int]) -> Metrics:
    """Metrics of micro-batches into those of their batch: `_max` by maximum, the others by mean over loss tokens."""
    return {
        name: max(part[name] for part in parts)
        if name.endswith("_max")
        else sum(part[name] * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
        for name in parts[0]
    }
