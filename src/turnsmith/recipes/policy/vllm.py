"""What a run needs of servers of vLLM."""

from pathlib import Path

import torch

from turnsmith.config import RunConfig
from turnsmith.engines.base import Engine
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, bytes_for
from turnsmith.engines.vllm.opening import open_vllm
from turnsmith.engines.vllm.settings import Wanted
from turnsmith.recipes.policy.local import Model
from turnsmith.training.directories import find_model
from turnsmith.training.memory import longest_context, plan_cache, read_config


def open_vllm_engine(config: RunConfig, model: Model, logs: Path | None = None) -> Engine:
    """Samples by servers of vLLM in processes of their own, which are ready when this returns; the model here is not asked for.

    The servers share what a run in this process would have for keys and values; their own copies of the weights are not counted.
    What they say goes to the folder `logs`.
    Raises UsageError where the run would not fit without them, or no server can serve it.
    """
    directory = find_model(config.model.path)
    base, dtype = read_config(directory), getattr(torch, config.model.dtype)
    wanted = Wanted(
        directory,
        base,
        config.model.dtype,
        max_context=longest_context(config),
        num_episodes=config.rollouts.concurrency,
        kv_bytes=bytes_for(base, dtype, plan_cache(config, directory) * BLOCK_TOKENS) // config.engine.vllm.replicas,
        seed=config.seed,
    )
    return open_vllm(config.engine.vllm, wanted, logs)
