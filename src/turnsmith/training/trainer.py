"""The trainer: micro-batches and a loss function in, new weights out. It knows no algorithm."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from turnsmith.algo.losses import LossTokens, Metrics
from turnsmith.config import OptimizerConfig
from turnsmith.errors import TrainingError
from turnsmith.training.checkpoint import load_checkpoint, save_checkpoint
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch

LossFn = Callable[[Tensor, LossTokens], tuple[Tensor, Metrics]]
"""Log-probs of the loss tokens and what the samples say of them, in; loss and metrics out."""


class Trainer:
    """Owns the weights and the optimizer. An engine may read the same weights between steps."""

    def __init__(
        self, model: PreTrainedModel, config: OptimizerConfig, total_steps: int = 0, policy_version: int = 0
    ) -> None:
        self.model = model
        self.config = config
        self.total_steps = total_steps
        self.num_steps = 0
        """Optimizer steps that this trainer has made."""
        self.policy_version = policy_version
        """Weight updates that the policy has seen, other trainers' included."""
        self.optimizer = make_optimizer(model, config)

    def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> dict[str, float]:
        """One optimizer step over all micro-batches. Raises TrainingError, weights untouched, where a number is not finite."""
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
        logprobs = logprobs_of_sampled(self.model, micro_batch)
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

    @torch.no_grad()
    def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, list[float]]:
        """Log-probs now, by trajectory id, parallel to the sample's `token_ids`; 0 outside of the loss mask."""
        return {
            trajectory_id: row
            for micro_batch in micro_batches
            for trajectory_id, row in spread(self._values(micro_batch), micro_batch).items()
        }

    def _values(self, micro_batch: MicroBatch) -> list[float]:
        """Log-probs of the loss tokens, in order; a micro-batch without any needs no forward pass."""
        return logprobs_of_sampled(self.model, micro_batch).tolist() if micro_batch.num_loss_tokens else []

    def save(self, directory: Path) -> None:
        """Write a checkpoint that `load` resumes exactly and that is also a Hugging Face model directory."""
        state = {
            "optimizer": self.optimizer.state_dict(),
            "num_steps": self.num_steps,
            "total_steps": self.total_steps,
            "policy_version": self.policy_version,
            "rng": torch.get_rng_state(),
        }
        save_checkpoint(directory, self.model, state)

    def load(self, directory: Path) -> None:
        """Resume from a checkpoint of `save`: weights (in place), optimizer, schedule, counters, random state."""
        state: dict[str, Any] = load_checkpoint(directory, self.model)
        self.optimizer.load_state_dict(state["optimizer"])
        self.num_steps = state["num_steps"]
        self.total_steps = state["total_steps"]
        self.policy_version = state["policy_version"]
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


def spread(values: list[float], micro_batch: MicroBatch) -> dict[str, list[float]]:
    """Values of the loss tokens back to their positions, by trajectory id; 0 elsewhere."""
    remaining = iter(values)
    return {
        sample.trajectory_id: [next(remaining) if is_in_loss else 0.0 for is_in_loss in sample.loss_mask]
        for sample in micro_batch.samples
    }
