"""Will the run fit? Estimated from the model's config.json before any weight is loaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, PretrainedConfig

from turnsmith.config import OptimizerConfig, RFTConfig, RunConfig, StageConfig
from turnsmith.engines.kv_memory import GIB, bytes_for, size_cache
from turnsmith.errors import UsageError
from turnsmith.training.devices import find_device, free_bytes
from turnsmith.training.memory import MASTER_BYTES, MOMENT_BYTES, activation_bytes, count_parameters

AUTOMATIC_SHARE = 0.5
"""Share of what weights and training leave that keys and values may take where no budget is given."""


@dataclass(frozen=True)
class MemoryPlan:
    """What a run takes on its device, in bytes."""

    weights: int
    training: int
    """Gradients, moments and activations; nothing where the run only evaluates."""
    num_kv_blocks: int
    kv: int


def plan_memory(config: RunConfig, directory: Path) -> MemoryPlan:
    """Split what is free on the device. Raises UsageError where it is too little, or where it holds no episode."""
    model, dtype, device = read_config(directory), getattr(torch, config.model.dtype), find_device(config.model.device)
    num_parameters = count_parameters(model)
    casts = dtype.itemsize if dtype != torch.float32 else 0
    weights = (MASTER_BYTES + casts) * num_parameters
    training = (MASTER_BYTES + MOMENT_BYTES) * num_parameters + max(activations(config, model), default=0)
    training = training if config.rft or config.stages else 0
    free, context, given_gb = free_bytes(device), longest_context(config), config.engine.kv_memory_gb
    least = bytes_for(model, dtype, context) if given_gb is None else int(given_gb * GIB)
    if weights + training + least > free:
        raise UsageError(refusal(config, device, weights, training, least, free))
    budget = least if given_gb is not None else max(least, AUTOMATIC_SHARE * (free - weights - training))
    num_blocks = size_cache(
        model, dtype, max_context=context, num_episodes=config.rollouts.concurrency, num_bytes=budget
    )
    return MemoryPlan(weights, training, num_blocks, int(budget))


def read_config(directory: Path) -> PretrainedConfig:
    """The configuration of a model directory. Raises UsageError."""
    try:
        return AutoConfig.from_pretrained(directory)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"the model at {directory} cannot be used: {reason}: give another") from error


def activations(config: RunConfig, model: PretrainedConfig) -> Iterator[int]:
    """Bytes of the largest micro-batch of each part that trains."""
    dtype, recompute = getattr(torch, config.model.dtype), config.trainer.activation_checkpointing
    parts: list[RFTConfig | StageConfig] = [*([config.rft] if config.rft else []), *config.stages]
    for part in parts:
        num_tokens = largest_pass(part.optimizer, part.max_context, part.batch_size)
        yield activation_bytes(model, dtype, num_tokens, recompute=recompute)


def largest_pass(optimizer: OptimizerConfig, max_context: int, batch_size: int) -> int:
    """Tokens of the largest micro-batch: a longer sample is one of its own, and a small batch fills none."""
    return min(max(optimizer.max_tokens_per_micro_batch, max_context), batch_size * max_context)


def longest_context(config: RunConfig) -> int:
    """The longest context of any part of the run, in tokens."""
    rft = [config.rft.max_context] if config.rft else []
    return max([config.agent.max_context, *rft, *(stage.max_context for stage in config.stages)])


def refusal(config: RunConfig, device: torch.device, weights: float, training: float, kv: float, free: float) -> str:
    """What does not fit, and what would help."""
    of_training = f", gradients, optimizer and activations {training / GIB:,.1f} GiB" if training else ""
    switch = "" if config.trainer.activation_checkpointing else "trainer.activation_checkpointing = true, "
    remedies = f"{switch}a lower max_tokens_per_micro_batch, " if training else ""
    return (
        f"the run needs about {(weights + training + kv) / GIB:,.1f} GiB on {device}, where {free / GIB:,.1f} GiB are free: "
        f"weights {weights / GIB:,.1f} GiB{of_training}, keys and values {kv / GIB:,.1f} GiB: use {remedies}a smaller model, a "
        "lower max_context or engine.kv_memory_gb, or a larger machine"
    )
