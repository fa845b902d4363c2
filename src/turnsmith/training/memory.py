"""Memory of a run in this process: the estimate before weights are loaded, the KV cache, and refusal. Numbers are bytes."""

from pathlib import Path

import torch

from turnsmith.config import RunConfig
from turnsmith.engines.torch.blocks import GIB, bytes_for, size_cache
from turnsmith.errors import UsageError
from turnsmith.io.memory import read_available_bytes
from turnsmith.training.configuration import read_config
from turnsmith.training.footprint import AUTOMATIC_SHARE, count_largest_tokens, find_footprint, longest_context
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.model import find_device
from turnsmith.training.shape import ModelShape, find_shape


def plan_cache(config: RunConfig, directory: Path) -> int:
    """Return the number of KV-cache blocks of a run. Raises UsageError if memory is too small for the run or one episode."""
    model = read_config(directory, config.model.rope_scaling)
    dtype, device = getattr(torch, config.model.dtype), find_device(config.model.device)
    weights, training = estimate(config, find_shape(model), device)
    free, context, given_gb = free_bytes(device), longest_context(config), config.engine.kv_memory_gb
    least = bytes_for(model, dtype, context) if given_gb is None else int(given_gb * GIB)
    if weights + training + least > free:
        raise UsageError(refusal(config, device, weights, training, least, free))
    budget = least if given_gb is not None else max(least, AUTOMATIC_SHARE * (free - weights - training))
    return size_cache(model, dtype, max_context=context, num_episodes=config.rollouts.concurrency, num_bytes=budget)


def estimate(config: RunConfig, shape: ModelShape, device: torch.device) -> tuple[float, float]:
    """Estimate the bytes of the weights, and of gradients, optimizer and activations if the run trains.

    All ranks share the memory of a CPU, but each rank has a GPU of its own, and so has an engine in this process beside ranks.
    """
    trainer, num_tokens = config.trainer, count_largest_tokens(config)
    layout = RankLayout(trainer.num_ranks, trainer.cp, trainer.dp_replicate, trainer.cp_kind)
    itemsize = getattr(torch, config.model.dtype).itemsize
    engine = 0.0
    # The engine shares a local trainer's weights, and has a copy of those of ranks.
    if trainer.kind == "fsdp" and config.engine.kind == "inprocess":
        engine = find_footprint(shape, trainer, RankLayout(), itemsize=itemsize, num_tokens=0).weights
        if device.type == "cuda":
            return engine, 0.0
    gpu_bytes = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None
    one_rank = find_footprint(shape, trainer, layout, itemsize=itemsize, num_tokens=num_tokens, gpu_bytes=gpu_bytes)
    num_ranks = 1 if gpu_bytes else layout.num_ranks
    training = num_ranks * (one_rank.total - one_rank.weights) if num_tokens else 0.0
    return engine + num_ranks * one_rank.weights, training


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
