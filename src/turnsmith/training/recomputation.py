"""Activation checkpointing: layers keep their input only, and are computed again on the way back."""

from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


def recompute_layers(model: PreTrainedModel) -> None:
    """Let every layer of the model compute again what its backward pass needs.

    transformers' own switch works in training mode only, where dropout is on.
    """
    for layer in model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
            layer.forward = forward
