"""Activation checkpointing: layers keep their input, and recompute other activations in the backward pass."""

from functools import partial
from typing import Any

import torch
import torch.nn.attention.varlen  # registers torch_attn._varlen_attn
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts, noop_context_fn
from transformers.modeling_layers import GradientCheckpointingLayer

from turnsmith.config import TrainerConfig
from turnsmith.errors import UsageError
from turnsmith.training.activations.offload import HostOffload
from turnsmith.training.activations.tiles import tile_mlps

ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.torch_attn._varlen_attn.default,
}
"""Attention kernels whose outputs `selective` keeps. Their cost grows with the square of a sample's length."""


def limit_activations(model: nn.Module, config: TrainerConfig) -> None:
    """Apply the `[trainer]` keys for activation memory to the layers of a model, before or after `fully_shard`.

    Raises UsageError if the model does not support a key.
    """
    if config.mlp_tiles > 1:
        tile_mlps(model, config.mlp_tiles)
    if config.activation_checkpointing != "none":
        is_selective = config.activation_checkpointing == "selective"
        recompute_layers(model, is_selective=is_selective, offload=config.offload_activations)


def recompute_layers(model: nn.Module, *, is_selective: bool = False, offload: bool = False) -> None:
    """Let each layer keep only its input, and with `is_selective` the output of its attention kernel. Raises UsageError.

    With `offload`, the inputs are kept in host memory; attention outputs stay on the device. The switch in transformers would
    require training mode, which turns on dropout.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    if not layers:
        raise UsageError(
            f"trainer.activation_checkpointing cannot find the layers of {type(model).__name__}: set it to none, or use "
            "a model whose layers transformers can recompute"
        )
    contexts = partial(create_selective_checkpoint_contexts, keep_attention) if is_selective else noop_context_fn
    recompute = partial(
        HostOffload().checkpoint if offload else checkpoint, use_reentrant=False, preserve_rng_state=False
    )
    for layer in layers:
        layer.forward = partial(recompute, layer.forward, context_fn=contexts)


def keep_attention(context: Any, kernel: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Return the policy for the output of a kernel: keep it if it is expensive attention, else recompute it."""
    return CheckpointPolicy.MUST_SAVE if kernel in ATTENTION else CheckpointPolicy.PREFER_RECOMPUTE
