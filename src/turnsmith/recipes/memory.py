"""Will the run fit? Estimated from the model's config.json before any weight is loaded."""

from pathlib import Path

import torch
from transformers import AutoConfig, PretrainedConfig

from turnsmith.config import RFTConfig, RunConfig, StageConfig
from turnsmith.engines.blocks import GIB, bytes_for, size_cache
from turnsmith.errors import UsageError
from turnsmith.training.memory import MASTER_BYTES, MOMENT_BYTES, activation_bytes, count_parameters, free_bytes
from turnsmith.training.model import find_device

AUTOMATIC_SHARE = 0.5
"""Share of what weights and training leave that keys and values may take where no budget is given."""


def plan_cache(config: RunConfig, directory: Path) -> int:
    """Blocks of keys and values for the engine. Raises UsageError where the run does not fit, or the budget holds no episode."""
    model, dtype, device = read_config(directory), getattr(torch, config.model.dtype), find_device(config.model.device)
    weights, training = estimate(config, model)
    free, context, given_gb = free_bytes(device), longest_context(config), config.engine.kv_memory_gb
    least = bytes_for(model, dtype, context) if given_gb is None else int(given_gb * GIB)
    if weights + training + least > free:
        raise UsageError(refusal(config, device, weights, training, least, free))
    budget = least if given_gb is not None else max(least, AUTOMATIC_SHARE * (free - weights - training))
    return size_cache(model, dtype, max_context=context, num_episodes=config.rollouts.concurrency, num_bytes=budget)


def estimate(config: RunConfig, model: PretrainedConfig) -> tuple[int, int]:
    """Bytes of the weights, and of what training adds: gradients, moments, activations of the largest micro-batch."""
    dtype, num_parameters, parts = getattr(torch, config.model.dtype), count_parameters(model), trained(config)
    casts = dtype.itemsize if dtype != torch.float32 else 0
    weights = (MASTER_BYTES + casts) * num_parameters
    if not parts:
        return weights, 0
    # A longer sample is a micro-batch of its own, and a small batch fills none.
    largest = max(
        min(max(part.optimizer.max_tokens_per_micro_batch, part.max_context), part.batch_size * part.max_context)
        for part in parts
    )
    activations = activation_bytes(model, dtype, largest, recompute=config.trainer.activation_checkpointing)
    return weights, (MASTER_BYTES + MOMENT_BYTES) * num_parameters + activations


def trained(config: RunConfig) -> list[RFTConfig | StageConfig]:
    """The parts of a run that train."""
    return [*([config.rft] if config.rft else []), *config.stages]


def longest_context(config: RunConfig) -> int:
    """The longest context of any part of the run, in tokens."""
    return max([config.agent.max_context, *(part.max_context for part in trained(config))])


def read_config(directory: Path) -> PretrainedConfig:
    """The configuration of a model directory. Raises UsageError."""
    try:
        return AutoConfig.from_pretrained(directory)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"the model at {directory} cannot be used: {reason}: give another") from error


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
