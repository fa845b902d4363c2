"""What training takes in memory, estimated from a model's configuration before anything is allocated, and what is free.

Counted over the forward of the Llama family in transformers, which is what nearly all models look like; the numbers are bytes.
"""

from pathlib import Path

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
