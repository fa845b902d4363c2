"""Functions that run the model for the engine: token ids and attention layout in, final hidden states out.

A fast path runs Llama-family models on their weights directly, with few calls, since a decode step on a CPU is mostly call
overhead. Its last layer computes only the last token of each sequence. Other models run by their own `forward`, as in
training; tests compare the fast path with `forward`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, silu
from transformers import PreTrainedModel

from turnsmith.engines.torch.attention import hidden_states
from turnsmith.engines.torch.paged_attention import BlockLayout

Decoder = Callable[[Tensor, BlockLayout], Tensor]
"""Function of token ids `[tokens]` and a layout; returns hidden states of the selected tokens, `[selected, hidden_size]`."""

Rotation = tuple[Tensor, Tensor]
"""Rotary embedding of packed tokens: cosine, and sine with its first half negated, each `[tokens, 1, head_dim]`."""

ALL_TOKENS = slice(None)

LLAMA_FAMILY = ("llama", "mistral", "qwen2")
"""Model types of `decode_llama`: their layers have only RMSNorm, rotary embedding, grouped-query attention and a gated MLP."""


def make_decoder(model: PreTrainedModel) -> Decoder:
    """Return the function that runs a model for the engine: `decode_llama` if it supports the model, else the model's forward."""
    is_short = model.config.model_type in LLAMA_FAMILY and model.config.hidden_act == "silu"
    return partial(decode_llama if is_short else decode_by_forward, model.get_decoder())


def decode_by_forward(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """Compute the hidden states of the selected tokens by the model's own forward."""
    return hidden_states(decoder, token_ids, layout)[layout.selected]


def decode_llama(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """Compute the hidden states of the selected tokens from a Llama-family model's weights, without module calls or hooks."""
    hidden = decoder.embed_tokens.weight[token_ids]
    rotation = find_rotation(decoder, hidden, layout.position_ids)
    *layers, last = decoder.layers
    for layer in layers:
        hidden = transform(layer, attend(layer, hidden, rotation, layout))
    return normalize(decoder.norm, transform(last, attend(last, hidden, rotation, layout, layout.selected)))


def find_rotation(decoder: Any, hidden: Tensor, position_ids: Tensor) -> Rotation:
    cos, sin = decoder.rotary_emb(hidden[None], position_ids[None])
    first, second = sin[0].chunk(2, dim=-1)
    return cos[0, :, None], torch.cat([-first, second], dim=-1)[:, None]


def attend(
    layer: Any, hidden: Tensor, rotation: Rotation, layout: BlockLayout, wanted: Tensor | slice = ALL_TOKENS
) -> Tensor:
    """Return the residual `[wanted, hidden_size]` of the `wanted` tokens plus their attention to all tokens."""
    attention, normal, (cos, sin) = layer.self_attn, normalize(layer.input_layernorm, hidden), rotation
    query = rotate(to_heads(attention, "q_proj", normal[wanted]), (cos[wanted], sin[wanted]))
    key, value = (to_heads(attention, name, normal) for name in ("k_proj", "v_proj"))
    query, key, value = (tensor.transpose(0, 1)[None] for tensor in (query, rotate(key, rotation), value))
    output = layout.attend(attention.layer_idx, query, key, value, attention.scaling)
    return hidden[wanted] + apply(attention.o_proj, output[0].flatten(1))


def transform(layer: Any, hidden: Tensor) -> Tensor:
    """Return the residual plus the output of a layer's gated MLP."""
    mlp, normal = layer.mlp, normalize(layer.post_attention_layernorm, hidden)
    return hidden + apply(mlp.down_proj, silu(apply(mlp.gate_proj, normal)) * apply(mlp.up_proj, normal))


def normalize(norm: Any, hidden: Tensor) -> Tensor:
    """Apply a model's RMSNorm without calling its module."""
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def apply(projection: Any, hidden: Tensor) -> Tensor:
    """Apply a model's linear layer without calling its module."""
    return linear(hidden, projection.weight, projection.bias)


def to_heads(attention: Any, name: str, hidden: Tensor) -> Tensor:
    """Project hidden states to queries, keys or values, split into heads: `[tokens, heads, head_dim]`."""
    return apply(getattr(attention, name), hidden).unflatten(-1, (-1, attention.head_dim))


def rotate(vectors: Tensor, rotation: Rotation) -> Tensor:
    """Apply the rotary embedding to queries or keys: cos·x + sin·(x with swapped halves), the first half of `sin` negated."""
    cos, sin = rotation
    swapped = vectors.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(vectors * cos, swapped, sin)
