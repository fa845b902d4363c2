"""Sharding of a model over a mesh of ranks by FSDP2, with decoder and output head behind one forward method."""

from functools import partial

import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from turnsmith.training.fsdp.mesh import Mesh
from turnsmith.training.model import score

FORWARD = "score_row"
"""Name of the model's method that runs `training.model.score`; it gathers the weights of decoder and head."""


def shard_model(model: PreTrainedModel, mesh: Mesh, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Shard a model in place and return it. The weights may be on the meta device. Raises UsageError.

    Each layer is gathered when it computes, in `dtype`; embedding, final norm and head are gathered together, in float32, as tied
    weights are one parameter. Shards, gradients and sums over ranks are float32. Gradients are summed over ranks, not averaged,
    because a loss carries its denominator.
    """
    mesh.layout.check_heads(*_count_heads(model))
    for layer in model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            fully_shard(layer, mesh=mesh.shards, mp_policy=_choose_precision(dtype))
    fully_shard(model, mesh=mesh.shards)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            _sum_gradients(module)
    setattr(model, FORWARD, partial(score, model))
    register_fsdp_forward_method(model, FORWARD)
    return model


def _count_heads(model: PreTrainedModel) -> tuple[int, int]:
    heads = model.config.num_attention_heads
    return heads, getattr(model.config, "num_key_value_heads", None) or heads


def _choose_precision(dtype: torch.dtype) -> MixedPrecisionPolicy:
    if dtype == torch.float32:
        return MixedPrecisionPolicy()
    # Residual sums stay in float32: autocast chooses the dtype of each operation, as in `LocalTrainer`.
    return MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)


def _sum_gradients(module: FSDPModule) -> None:
    # gloo has no average. Neither setting applies to submodules.
    module.set_gradient_divide_factor(1.0)
    module.set_force_sum_reduction_for_comms(True)
