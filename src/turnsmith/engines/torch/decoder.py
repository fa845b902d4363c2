"""Decoder functions of the engine: token ids and layout in, final hidden states out.

The fast path runs Llama-family models on their weights directly, with few calls, since a decode step on a CPU is mostly
call overhead. Its last layer computes only the selected tokens. Other models use their own forward, which also serves
the trainer and is the fast path's reference.
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
"""Function from token ids `[tokens]` and layout to hidden states of `layout.selected`, `[selected, hidden_size]`."""

Rotation = tuple[Tensor, Tensor]
"""Cosine, and sine with its first half negated, each `[tokens, 1, head_dim]`."""

ALL_TOKENS = slice(None)

LLAMA_FAMILY = ("llama", "mistral", "qwen2")
"""Model types that consist only of RMSNorm, rotary half-rotation, grouped-query attention and a gated MLP, in this
order.
"""


def make_decoder(model: PreTrainedModel) -> Decoder:
    """Choose the fast path if the model supports it, else its own forward."""
    is_short = model.config.model_type in LLAMA_FAMILY and model.config.hidden_act == "silu"
    return partial(decode_llama if is_short else decode_by_forward, model.get_decoder())


def decode_by_forward(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """Compute hidden states by the model's own forward."""
    return hidden_states(decoder, token_ids, layout)[layout.selected]


def decode_llama(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """Compute hidden states from the weights, without modules and hooks."""
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
    """Add attention of the `wanted` tokens to the residual, `[wanted, hidden_size]`; keys cover all tokens."""
    attention, normal, (cos, sin) = layer.self_attn, normalize(layer.input_layernorm, hidden), rotation
    query = rotate(to_heads(attention, "q_proj", normal[wanted]), (cos[wanted], sin[wanted]))
    key, value = (to_heads(attention, name, normal) for name in ("k_proj", "v_proj"))
    query, key, value = (tensor.transpose(0, 1)[None] for tensor in (query, rotate(key, rotation), value))
    output = layout.attend(attention.layer_idx, query, key, value, attention.scaling)
    return hidden[wanted] + apply(attention.o_proj, output[0].flatten(1))


def transform(layer: Any, hidden: Tensor) -> Tensor:
    """Add the gated MLP to the residual."""
    mlp, normal = layer.mlp, normalize(layer.post_attention_layernorm, hidden)
    return hidden + apply(mlp.down_proj, silu(apply(mlp.gate_proj, normal)) * apply(mlp.up_proj, normal))


def normalize(norm: Any, hidden: Tensor) -> Tensor:
    """Apply RMSNorm."""
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def apply(projection: Any, hidden: Tensor) -> Tensor:
    """Apply a linear layer without calling its module."""
    return linear(hidden, projection.weight, projection.bias)


def to_heads(attention: Any, name: str, hidden: Tensor) -> Tensor:
    """Project and split into heads, `[tokens, heads, head_dim]`."""
    return apply(getattr(attention, name), hidden).unflatten(-1, (-1, attention.head_dim))


def rotate(vectors: Tensor, rotation: Rotation) -> Tensor:
    """Apply rotary embedding: cos·x + sin·(swapped halves of x); the sine carries the sign."""
    cos, sin = rotation
    swapped = vectors.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(vectors * cos, swapped, sin)
