"""Random models of two layers."""

from collections.abc import Iterator

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from turnsmith.engines.base import StreamedWeights
from turnsmith.engines.torch import attention

VOCABULARY = 61
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "initializer_range": 0.3,
}


def make_model(kind: str = "qwen2", seed: int = 0, **changes: object) -> PreTrainedModel:
    """Make a model with large weights, so that its distribution is far from uniform; all but Llama tie embeddings."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **SIZES | {"tie_word_embeddings": kind != "llama"} | changes)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME).eval()


def stream(model: PreTrainedModel, policy_version: int) -> StreamedWeights:
    """Stream the weights of a model, one or two at a time."""
    weights = list(model.named_parameters())

    def read() -> Iterator[list[tuple[str, torch.Tensor]]]:
        for start in range(0, len(weights), 2):
            yield [(name, tensor.detach()) for name, tensor in weights[start : start + 2]]

    return StreamedWeights(policy_version, {name: tuple(tensor.shape) for name, tensor in weights}, read)
