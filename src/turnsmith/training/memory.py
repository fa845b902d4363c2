"""What training takes in memory, estimated from a model's configuration before anything is allocated.

Counted over the forward of the Llama family in transformers, which is what nearly all models look like; the numbers are bytes.
"""

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from turnsmith.training.model import MAX_CHUNK_LOGITS

MASTER_BYTES = 4
"""A weight in float32, and so its gradient."""
MOMENT_BYTES = 8
"""The two moments of AdamW for one weight."""


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
