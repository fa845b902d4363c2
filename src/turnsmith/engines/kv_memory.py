"""How much memory keys and values may take, and how many blocks that is."""

import torch
from transformers import PretrainedConfig

from turnsmith.engines.blocks import BLOCK_TOKENS, blocks_for
from turnsmith.errors import UsageError

GIB = 2**30


def size_cache(
    config: PretrainedConfig, dtype: torch.dtype, *, max_context: int, num_episodes: int, num_bytes: float
) -> int:
    """Blocks for as many episodes of `max_context` tokens, within a budget. Raises UsageError where it cannot hold one."""
    block_bytes = BLOCK_TOKENS * kv_bytes_per_token(config, dtype)
    affordable, of_one = int(num_bytes // block_bytes), blocks_for(max_context)
    if affordable < of_one:
        raise UsageError(
            f"{num_bytes / GIB:.3g} GiB for keys and values hold {affordable * BLOCK_TOKENS} tokens, less than one episode "
            f"of max_context {max_context}, which takes {of_one * block_bytes / GIB:.3g} GiB: raise engine.kv_memory_gb, "
            "free memory, or lower max_context"
        )
    return min(affordable, num_episodes * of_one)


def bytes_for(config: PretrainedConfig, dtype: torch.dtype, num_tokens: int) -> int:
    """Bytes of the blocks that hold one episode of so many tokens."""
    return blocks_for(num_tokens) * BLOCK_TOKENS * kv_bytes_per_token(config, dtype)


def kv_bytes_per_token(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Bytes of one token's keys and values in all layers."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * key_heads * head_dim * dtype.itemsize)
