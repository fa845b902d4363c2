"""Sizes of a causal model, read from its configuration. Imports torch only for models outside of `FAMILIES`."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from turnsmith.errors import UsageError

FAMILIES = {"llama", "mistral", "qwen2", "qwen3"}
"""Model types whose parameters are counted by formula; models of other types are built without memory and counted."""
CPU_TILE, GPU_TILE = 2**18, 2**25
"""Maximum number of logits in memory at once in training: 1 MiB in fp32, which fits a CPU's cache, and 128 MiB on a GPU."""
MAX_CHUNK_LOGITS = 2**25
"""Maximum number of logits in memory at once (128 MiB in fp32) where all statistics of a token's logits are computed."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder with gated MLPs and grouped attention heads.

    Example: Qwen2.5-72B has 80 layers of 8,192 hidden units, 64 query and 8 key heads of 128, and 72.7e9 parameters.
    """

    num_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_heads: int
    num_key_heads: int
    head_dim: int
    is_tied: bool
    """True if the output head is the embedding."""
    has_head_norms: bool
    """True if queries and keys are normalised per head, as in Qwen3."""
    layer_matrices: int
    """Parameters of one layer's matrices."""
    layer_vectors: int
    """Parameters of one layer's norms and biases."""
    num_parameters: int
    """All parameters; a shared one counts once."""

    @property
    def query_size(self) -> int:
        """Size of all query heads of one token. It differs from `hidden_size` in Qwen3."""
        return self.num_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Size of all key heads of one token."""
        return self.num_key_heads * self.head_dim

    @property
    def head_matrix(self) -> int:
        """Parameters of the output head."""
        return self.hidden_size * self.vocab_size

    @property
    def layer_parameters(self) -> int:
        return self.layer_matrices + self.layer_vectors

    @property
    def outer_parameters(self) -> int:
        """Parameters outside of the layers: embedding, last norm and output head."""
        return self.num_parameters - self.num_layers * self.layer_parameters


def read_shape(directory: Path) -> ModelShape:
    """Read the sizes of the model in a directory from its `config.json`. Raises UsageError."""
    file = directory / "config.json"
    try:
        data = json.loads(file.read_text("utf-8"))
        if data["model_type"] in FAMILIES:
            return find_shape(SimpleNamespace(**data))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"cannot read the sizes of a model from {file}: {error!r}: give another model") from None
    # Imported here, since torch takes seconds to import and most models do not need it.
    from turnsmith.training.configuration import read_config

    return find_shape(read_config(directory))


def find_shape(config: Any) -> ModelShape:
    """Find the sizes in a model's configuration: a PretrainedConfig, or the data of `config.json` as attributes."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    num_key_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or (128 if config.model_type == "qwen3" else hidden // heads)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    # Classes of transformers tie the embeddings unless the configuration says otherwise; Llama, Mistral and Qwen say it.
    is_tied = bool(getattr(config, "tie_word_embeddings", False))
    query, key = heads * head_dim, num_key_heads * head_dim
    matrices, vectors = 2 * hidden * (query + key) + 3 * hidden * inner, 2 * hidden
    if config.model_type == "qwen2":
        vectors += query + 2 * key
    if has_head_norms := config.model_type == "qwen3":
        vectors += 2 * head_dim
    if getattr(config, "attention_bias", False):
        vectors += query + 2 * key + hidden
    if getattr(config, "mlp_bias", False):
        vectors += 2 * inner + hidden
    outer = (1 if is_tied else 2) * hidden * config.vocab_size + hidden
    num_parameters = config.num_hidden_layers * (matrices + vectors) + outer
    if config.model_type not in FAMILIES:
        matrices, vectors, num_parameters = _count_without_memory(config)
    return ModelShape(
        config.num_hidden_layers, hidden, inner, config.vocab_size, heads, num_key_heads, head_dim, is_tied,
        has_head_norms, matrices, vectors, num_parameters,
    )  # fmt: skip


def _count_without_memory(config: Any) -> tuple[int, int, int]:
    """Count the parameters of one layer's matrices, of its vectors, and of the whole model."""
    import torch
    from torch import nn
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    [layer, *_] = next(part for part in model.modules() if isinstance(part, nn.ModuleList))
    sizes = [(parameter.dim() >= 2, parameter.numel()) for parameter in layer.parameters()]
    matrices = sum(size for is_matrix, size in sizes if is_matrix)
    total = sum(parameter.numel() for parameter in model.parameters())
    return matrices, sum(size for _, size in sizes) - matrices, total
