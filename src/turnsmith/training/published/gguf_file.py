"""Weights and configuration of a GGUF file, in the names and layouts of transformers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnsmith.errors import UsageError


@dataclass(frozen=True)
class Architecture:
    """Architecture of transformers that a GGUF file can contain."""

    class_name: str
    is_permuted: bool = False
    """True if the file holds the rows of queries and keys in the order of interleaved rotary embeddings."""


ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", is_permuted=True),
    "qwen2": Architecture("Qwen2ForCausalLM"),
    "qwen3": Architecture("Qwen3ForCausalLM"),
}
"""Name of an architecture in GGUF files, and of its model type in transformers."""
LAYER_PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
OTHER_PARTS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class GgufFile:
    """Opened GGUF file. Its tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        """Open a file. Raises UsageError if it is no GGUF file, or of an architecture that is not supported."""
        from gguf import GGUFReader

        self.path = path
        try:
            self._reader = GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise UsageError(f"{path} is not a GGUF file, or is truncated ({error}): download it again") from None
        self.model_type = str(self.read("general.architecture"))
        if self.model_type not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise UsageError(f"{path} has the architecture {self.model_type}: only {known} can be converted")

    def read(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or a default if the file lacks it."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        """Return the value of a key. Raises UsageError if the file lacks it."""
        if (value := self.read(key)) is None:
            raise UsageError(f"{self.path} has no key {key}: it is damaged, or of an older version of the format")
        return value

    def read_configuration(self) -> dict[str, Any]:
        """Read the content of `config.json`. Raises UsageError if the model scales its rotary embeddings."""
        name = self.model_type
        if self.read(f"{name}.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in self._list_names():
            raise UsageError(f"{self.path} has scaled rotary embeddings, which cannot be converted: use another format")
        num_heads, hidden = self.require(f"{name}.attention.head_count"), self.require(f"{name}.embedding_length")
        return {
            "architectures": [ARCHITECTURES[name].class_name],
            "model_type": name,
            "dtype": "float32",
            "hidden_act": "silu",
            "hidden_size": hidden,
            "intermediate_size": self.require(f"{name}.feed_forward_length"),
            "num_hidden_layers": self.require(f"{name}.block_count"),
            "num_attention_heads": num_heads,
            "num_key_value_heads": self.read(f"{name}.attention.head_count_kv", num_heads),
            "head_dim": self.read(f"{name}.attention.key_length", hidden // num_heads),
            "max_position_embeddings": self.require(f"{name}.context_length"),
            "rms_norm_eps": round(self.require(f"{name}.attention.layer_norm_rms_epsilon"), 12),
            "rope_theta": float(self.read(f"{name}.rope.freq_base", 10_000.0)),
            "vocab_size": len(self.require("tokenizer.ggml.tokens")),
            "tie_word_embeddings": "output.weight" not in self._list_names(),
            "bos_token_id": self.read("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.require("tokenizer.ggml.eos_token_id"),
        }

    def read_tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield name and float32 values of each tensor. Raises UsageError for an unknown tensor or quantisation."""
        name = self.model_type
        num_heads = self.require(f"{name}.attention.head_count")
        heads = {"attn_q": num_heads, "attn_k": self.read(f"{name}.attention.head_count_kv", num_heads)}
        for tensor in self._reader.tensors:
            part = tensor.name.split(".")[-2]
            values = self._dequantise(tensor)
            if part in heads and ARCHITECTURES[name].is_permuted:
                values = restore_rows(values, heads[part])
            yield self._rename(tensor.name), values

    def _dequantise(self, tensor: Any) -> np.ndarray:
        from gguf.quants import dequantize

        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except (NotImplementedError, KeyError):
            kind = tensor.tensor_type.name
            raise UsageError(f"{self.path}: tensor {tensor.name} has the unknown quantisation {kind}") from None
        return np.ascontiguousarray(values, np.float32).reshape(tensor.shape.tolist()[::-1])

    def _rename(self, name: str) -> str:
        *block, part, kind = name.split(".")
        if block and part in LAYER_PARTS:
            return f"model.layers.{block[1]}.{LAYER_PARTS[part]}.{kind}"
        if not block and part in OTHER_PARTS:
            return f"{OTHER_PARTS[part]}.{kind}"
        raise UsageError(f"{self.path}: the tensor {name} has no place in {ARCHITECTURES[self.model_type].class_name}")

    def _list_names(self) -> set[str]:
        return {tensor.name for tensor in self._reader.tensors}


def restore_rows(values: np.ndarray, num_heads: int) -> np.ndarray:
    """Restore the order of rows `[heads · head_dim, ...]`: the halves of each head follow each other, not alternate."""
    half = len(values) // num_heads // 2
    return values.reshape(num_heads, half, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape).copy()
