"""The decoder of a model, as the engine calls it: token ids and their layout in, final hidden states out.

Models of the Llama family are run over their own weights in few calls, and their last layer only for the tokens whose hidden
states are wanted: a decode step on a CPU is mostly calls. Any other model goes through its own forward, which is also the
reference of the short way, and what the trainer calls.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, silu
from transformers import PreTrainedModel

from turnsmith.engines.attention import hidden_states
from turnsmith.engines.layouts import BlockLayout

Decoder = Callable[[Tensor, BlockLayout], Tensor]
"""Token ids `[tokens]` and their layout to the hidden states of `layout.selected`, `[selected, hidden_size]`."""

Rotation = tuple[Tensor, Tensor]
"""Cosine, and sine with its first half negated, each `[tokens, 1, head_dim]`."""

ALL_TOKENS = slice(None)

LLAMA_FAMILY = ("llama", "mistral", "qwen2")
"""Model types built of RMSNorm, rotary half-rotation, grouped queries and a gated MLP, in this order, and nothing else."""


def make_decoder(model: PreTrainedModel) -> Decoder:
    """The short way where the model allows it, else its own forward."""
    is_short = model.config.model_type in LLAMA_FAMILY and model.config.hidden_act == "silu"
    return partial(decode_llama if is_short else decode_by_forward, model.get_decoder())


def decode_by_forward(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """By the forward that transformers gives a model."""
    return hidden_states(decoder, token_ids, layout)[layout.selected]


def decode_llama(decoder: Any, token_ids: Tensor, layout: BlockLayout) -> Tensor:
    """The same function of the same weights, without modules and hooks."""
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
    """Residual plus attention of the wanted tokens, `[wanted, hidden_size]`; the keys are those of all."""
    attention, normal, (cos, sin) = layer.self_attn, normalize(layer.input_layernorm, hidden), rotation
    query = rotate(to_heads(attention, "q_proj", normal[wanted]), (cos[wanted], sin[wanted]))
    key, value = (to_heads(attention, name, normal) for name in ("k_proj", "v_proj"))
    query, key, value = (tensor.transpose(0, 1)[None] for tensor in (query, rotate(key, rotation), value))
    output = layout.attend(attention.layer_idx, query, key, value, attention.scaling)
    return hidden[wanted] + apply(attention.o_proj, output[0].flatten(1))


def transform(layer: Any, hidden: Tensor) -> Tensor:
    """Residual plus gated MLP."""
    mlp, normal = layer.mlp, normalize(layer.post_attention_layernorm, hidden)
    return hidden + apply(mlp.down_proj, silu(apply(mlp.gate_proj, normal)) * apply(mlp.up_proj, normal))


def normalize(norm: Any, hidden: Tensor) -> Tensor:
    """RMSNorm."""
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def apply(projection: Any, hidden: Tensor) -> Tensor:
    """A linear layer, past the module's call."""
    return linear(hidden, projection.weight, projection.bias)


def to_heads(attention: Any, name: str, hidden: Tensor) -> Tensor:
    """A projection cut into heads, `[tokens, heads, head_dim]`."""
    return apply(getattr(attention, name), hidden).unflatten(-1, (-1, attention.head_dim))


def rotate(vectors: Tensor, rotation: Rotation) -> Tensor:
    """Rotary embedding: cos·x + sin·(halves of x swapped), the sign being in the sine."""
    cos, sin = rotation
    swapped = vectors.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(vectors * cos, swapped, sin)
