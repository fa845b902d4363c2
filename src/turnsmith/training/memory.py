"""Estimate of a run's memory from the model's configuration, before weights are loaded.

The estimate assumes the forward pass of transformers' Llama models, which most models resemble. All numbers are bytes.
"""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from turnsmith.config import RunConfig, TrainerConfig
from turnsmith.engines.torch.blocks import GIB, bytes_for, size_cache
from turnsmith.errors import UsageError
from turnsmith.io.memory import read_available_bytes
from turnsmith.training.configuration import read_config
from turnsmith.training.model import CHUNK_COPIES, find_chunk_logits, find_device

AUTOMATIC_SHARE = 0.5
"""Fraction that the KV cache gets of the memory free beside weights and training, if no `engine.kv_memory_gb` is set."""
MASTER_BYTES = 4
"""Bytes of one float32 weight. Its gradient has the same size."""
MOMENT_BYTES = {"float32": 8.0, "bfloat16": 4.0, "8bit": 2 + 2 * 4 / 256, "host": 0.0}
"""Bytes of AdamW's two moments per weight, on the device of the weights. In 8 bits, blocks of 256 share a scale."""


def plan_cache(config: RunConfig, directory: Path) -> int:
    """Return the number of KV-cache blocks of a run. Raises UsageError if memory is too small for the run or one episode."""
    model = read_config(directory, config.model.rope_scaling)
    dtype, device = getattr(torch, config.model.dtype), find_device(config.model.device)
    weights, training = estimate(config, model)
    free, context, given_gb = free_bytes(device), longest_context(config), config.engine.kv_memory_gb
    least = bytes_for(model, dtype, context) if given_gb is None else int(given_gb * GIB)
    if weights + training + least > free:
        raise UsageError(refusal(config, device, weights, training, least, free))
    budget = least if given_gb is not None else max(least, AUTOMATIC_SHARE * (free - weights - training))
    return size_cache(model, dtype, max_context=context, num_episodes=config.rollouts.concurrency, num_bytes=budget)


def estimate(config: RunConfig, model: PretrainedConfig) -> tuple[int, int]:
    """Estimate the bytes of the weights, and of training: gradients, moments and activations of the largest micro-batch."""
    dtype, num_parameters, parts = getattr(torch, config.model.dtype), count_parameters(model), config.training.values()
    casts = dtype.itemsize if dtype != torch.float32 else 0
    weights = (MASTER_BYTES + casts) * num_parameters
    if not parts:
        return weights, 0
    # A sample above the token limit forms its own micro-batch, and small batches fill none.
    largest = max(
        min(max(part.optimizer.max_tokens_per_micro_batch, part.max_context), part.batch_size * part.max_context)
        for part in parts
    )
    device = find_device(config.model.device)
    # On a CPU, the host's memory is the device's.
    moments = MOMENT_BYTES[
        "float32" if device.type == "cpu" and config.trainer.moments == "host" else config.trainer.moments
    ]
    activations = activation_bytes(model, dtype, largest, config.trainer, device)
    return weights, int((MASTER_BYTES + moments) * num_parameters) + activations


def longest_context(config: RunConfig) -> int:
    """Return the longest context of all stages of the run, in tokens."""
    return max([config.agent.max_context, *(part.max_context for part in config.training.values())])


def refusal(config: RunConfig, device: torch.device, weights: float, training: float, kv: float, free: float) -> str:
    """Return the error message for a run that does not fit into memory, with settings to change. Sizes are in bytes."""
    of_training = f", gradients, optimizer and activations {training / GIB:,.1f} GiB" if training else ""
    is_full = config.trainer.activation_checkpointing == "full"
    switch = "" if is_full else "trainer.activation_checkpointing = full, "
    remedies = f"{switch}a lower max_tokens_per_micro_batch, " if training else ""
    return (
        f"the run needs about {(weights + training + kv) / GIB:,.1f} GiB on {device}, where {free / GIB:,.1f} GiB are free: "
        f"weights {weights / GIB:,.1f} GiB{of_training}, keys and values {kv / GIB:,.1f} GiB: use {remedies}a smaller model, a "
        "lower max_context or engine.kv_memory_gb, or a larger machine"
    )


def count_parameters(config: PretrainedConfig) -> int:
    """Count a model's parameters without allocating them; a shared parameter counts once."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def activation_bytes(
    config: PretrainedConfig, dtype: torch.dtype, num_tokens: int, trainer: TrainerConfig, device: torch.device
) -> int:
    """Return the activation bytes of one micro-batch on the device, at their peak in the backward pass."""
    head = CHUNK_COPIES * 4 * min(find_chunk_logits(device), num_tokens * config.vocab_size)
    kept = _kept_bytes(config, dtype, trainer, device) + _working_bytes(config, dtype, trainer)
    return num_tokens * kept + head


def _kept_bytes(config: PretrainedConfig, dtype: torch.dtype, trainer: TrainerConfig, device: torch.device) -> int:
    """Return the bytes per token that all layers keep for the backward pass."""
    num_layers, residual = config.num_hidden_layers, 4 * config.hidden_size
    if trainer.activation_checkpointing == "none":
        return num_layers * (_block_bytes(config, dtype) + (trainer.mlp_tiles == 1) * _mlp_bytes(config, dtype))
    # An offloaded input leaves while the next one is computed, and returns while the one after it is used.
    inputs = 2 if trainer.offload_activations and device.type == "cuda" else num_layers
    outputs = num_layers if trainer.activation_checkpointing == "selective" else 0
    return inputs * residual + outputs * _attention_bytes(config, dtype)


def _working_bytes(config: PretrainedConfig, dtype: torch.dtype, trainer: TrainerConfig) -> int:
    """Return the bytes per token of the layer that the backward pass has reached: recomputed activations and gradients."""
    block, mlp = _block_bytes(config, dtype), _mlp_bytes(config, dtype) // trainer.mlp_tiles
    return block + mlp if trainer.activation_checkpointing == "none" else 2 * (block + mlp)


def _attention_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Return the bytes per token of the output of one layer's attention kernel, with the float32 logarithms of its sums."""
    heads = config.num_attention_heads
    return heads * ((getattr(config, "head_dim", None) or config.hidden_size // heads) * dtype.itemsize + 4)


def _block_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Return the bytes per token of one layer's activations, without those inside the MLP."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    keys = hidden * (getattr(config, "num_key_value_heads", None) or heads) // heads
    per_hidden = 36 if dtype == torch.float32 else 32
    return per_hidden * hidden + dtype.itemsize * 2 * keys


def _mlp_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Return the bytes per token of the wide activations inside one MLP."""
    return dtype.itemsize * 4 * (getattr(config, "intermediate_size", None) or 4 * config.hidden_size)


def free_bytes(device: torch.device) -> float:
    """Return the free memory of a device. On a CPU: the kernel's available memory, at most the container's limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(read_available_bytes(), _unused_of_group())


def _unused_of_group(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the unused memory, in bytes, below the limit of a Linux control group; infinite without a limit."""
    bound = group / "memory.max"
    if not bound.is_file() or bound.read_text().strip() == "max":
        return float("inf")
    return int(bound.read_text()) - int((group / "memory.current").read_text())
