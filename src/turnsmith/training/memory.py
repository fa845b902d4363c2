"""Will the run fit? Estimated from the configuration of the model, before any weight is loaded.

Counted over the forward of the Llama family in transformers, which is what nearly all models look like; the numbers are bytes.
"""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from turnsmith.config import RFTConfig, RunConfig, StageConfig
from turnsmith.engines.blocks import GIB, bytes_for, size_cache
from turnsmith.errors import UsageError
from turnsmith.training.model import MAX_CHUNK_LOGITS, find_device, naming

AUTOMATIC_SHARE = 0.5
"""Share of what weights and training leave that keys and values may take where no budget is given."""
MASTER_BYTES = 4
"""A weight in float32, and so its gradient."""
MOMENT_BYTES = 8
"""The two moments of AdamW for one weight."""


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
    with naming(directory):
        return AutoConfig.from_pretrained(directory)


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


def count_parameters(config: PretrainedConfig) -> int:
    """Weights of a model, shared ones once; none is allocated."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def activation_bytes(config: PretrainedConfig, dtype: torch.dtype, num_tokens: int, *, recompute: bool) -> int:
    """What the backward pass of one micro-batch needs: of all layers, or of one and the input of each."""
    layer, residual = _layer_bytes(config, dtype), 4 * config.hidden_size
    num_layers = config.num_hidden_layers
    per_token = num_layers * residual + 2 * layer if recompute else (num_layers + 1) * layer
    # Logits, their softmax and their gradient.
    head = 3 * 4 * min(MAX_CHUNK_LOGITS, num_tokens * config.vocab_size)
    return num_tokens * per_token + head


def _layer_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """What one layer keeps of a token for the backward pass: what is in float32 in any case, then what is in `dtype`."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    keys = hidden * (getattr(config, "num_key_value_heads", None) or heads) // heads
    per_hidden = 36 if dtype == torch.float32 else 32
    return per_hidden * hidden + dtype.itemsize * (4 * inner + 2 * keys)


def free_bytes(device: torch.device) -> float:
    """Memory that is free on a device; on a CPU what the kernel calls available, within the bound of a container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_available_bytes(), _unused_of_group())


def _available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    [kilobytes] = [line.split()[1] for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:")]
    return 1024 * int(kilobytes)


def _unused_of_group(group: Path = Path("/sys/fs/cgroup")) -> float:
    """What a control group's bound leaves, where there is one."""
    bound = group / "memory.max"
    if not bound.is_file() or bound.read_text().strip() == "max":
        return float("inf")
    return int(bound.read_text()) - int((group / "memory.current").read_text())
