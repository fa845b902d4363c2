"""Opening of vLLM servers for a run."""

import torch
from transformers import PretrainedConfig

from turnsmith.config import RunConfig
from turnsmith.engines.base import Engine
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, GIB, bytes_for
from turnsmith.engines.vllm.engine import open_vllm
from turnsmith.engines.vllm.server import Place
from turnsmith.engines.vllm.settings import ServerRequirements
from turnsmith.recipes.policy.base import PolicySetup
from turnsmith.recipes.policy.ranks import count_server_gpus
from turnsmith.training.configuration import read_config
from turnsmith.training.directories import find_model
from turnsmith.training.footprint import longest_context
from turnsmith.training.memory import plan_cache

SHARED = "shared"
"""Value of `engine.placement`: servers on the GPUs of the trainer's ranks."""


async def open_vllm_engine(setup: PolicySetup) -> Engine:
    """Open an engine of vLLM servers in separate processes, ready on return; their logs go to `setup.logs`.

    Raises UsageError if a server cannot start, or if memory is too small for the run. The memory check leaves out the weights
    that each server loads.
    """
    config = setup.config
    directory = find_model(config.model.path)
    base = read_config(directory, config.model.rope_scaling)
    wanted = ServerRequirements(
        directory,
        base,
        config.model.dtype,
        max_context=longest_context(config),
        num_episodes=config.rollouts.concurrency,
        kv_bytes=size_cache(config, base),
        seed=config.seed,
        is_extended=config.model.rope_scaling is not None,
        sleeps=config.engine.placement == SHARED,
    )
    if not config.engine.placement:
        return open_vllm(config.engine.vllm, wanted, setup.logs)
    place, arguments = place_servers(setup)
    servers = config.engine.vllm.model_copy(update={"arguments": [*config.engine.vllm.arguments, *arguments]})
    return open_vllm(servers, wanted, setup.logs, place)


def size_cache(config: RunConfig, model: PretrainedConfig) -> int:
    """Return the bytes of a server's KV cache on each of its GPUs. Raises UsageError if memory is too small for the run.

    On this machine, all servers together get as much as the in-process engine would; on a cluster, `engine.kv_memory_gb` each.
    """
    if config.engine.placement and config.engine.kv_memory_gb:
        return int(config.engine.kv_memory_gb * GIB)
    num_tokens = plan_cache(config, find_model(config.model.path)) * BLOCK_TOKENS
    return bytes_for(model, getattr(torch, config.model.dtype), num_tokens) // config.engine.vllm.replicas


def place_servers(setup: PolicySetup) -> tuple[Place, list[str]]:
    """Connect to the cluster; return the function that places servers there, and more arguments of them. Raises UsageError."""
    # Ray is an extra.
    from turnsmith.cluster.connection import connect, disconnect
    from turnsmith.cluster.placement import check_servers
    from turnsmith.cluster.servers import make_place
    from turnsmith.recipes.policy.fsdp import choose_device

    config, is_shared = setup.config, setup.config.engine.placement == SHARED
    connect(config.cluster.address, setup.logs)
    setup.resources.callback(disconnect)
    if choose_device(config) == "cpu":
        return make_place(0, is_shared), []
    num_gpus = count_server_gpus(config)
    check_servers(config.engine.vllm.replicas, num_gpus, config.trainer.num_ranks, is_shared=is_shared)
    return make_place(num_gpus, is_shared), ["--enable-sleep-mode"] if is_shared else []
