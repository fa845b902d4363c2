"""Opening of vLLM servers for a run."""

import torch

from turnsmith.engines.base import Engine
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, bytes_for
from turnsmith.engines.vllm.engine import open_vllm
from turnsmith.engines.vllm.settings import ServerRequirements
from turnsmith.recipes.policy.base import PolicySetup
from turnsmith.training.configuration import read_config
from turnsmith.training.directories import find_model
from turnsmith.training.memory import longest_context, plan_cache


async def open_vllm_engine(setup: PolicySetup) -> Engine:
    """Open an engine of vLLM servers in separate processes, ready on return; their logs go to `setup.logs`.

    All servers together get as much KV-cache memory as the in-process engine would. Raises UsageError if a server cannot
    start, or if memory is too small for the run. The memory check leaves out the weights that each server loads.
    """
    config = setup.config
    directory = find_model(config.model.path)
    base, dtype = read_config(directory, config.model.rope_scaling), getattr(torch, config.model.dtype)
    wanted = ServerRequirements(
        directory,
        base,
        config.model.dtype,
        max_context=longest_context(config),
        num_episodes=config.rollouts.concurrency,
        kv_bytes=bytes_for(base, dtype, plan_cache(config, directory) * BLOCK_TOKENS) // config.engine.vllm.replicas,
        seed=config.seed,
        is_extended=config.model.rope_scaling is not None,
    )
    return open_vllm(config.engine.vllm, wanted, setup.logs)
