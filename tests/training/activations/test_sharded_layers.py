"""All features for activation memory on layers that FSDP2 shards over two gloo ranks."""

import itertools

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from support.models.gradients import relative_error, score_and_differentiate, weigh_logprobs
from support.models.small_models import make_model
from turnsmith.config import TrainerConfig
from turnsmith.training.activations.checkpointing import limit_activations

SETTINGS = [
    TrainerConfig(activation_checkpointing=kind, offload_activations=is_offloaded, mlp_tiles=num_tiles)
    for kind, is_offloaded, num_tiles in itertools.product(["none", "full", "selective"], [False, True], [1, 3])
    if kind != "none" or not is_offloaded
]


class ShardedScore(torch.nn.Module):
    """Root module whose `score` gathers the sharded parameters of embedding, norm and head."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def score(self, samples):
        return weigh_logprobs(self.model, samples)


def shard(model):
    """Shard a model over all ranks; gradients are sums over ranks."""
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    root = fully_shard(ShardedScore(model), mesh=mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    register_fsdp_forward_method(root, "score")
    return root


def measure_errors(samples):
    """Return (setting, order, largest relative error of log-probs and gradients) for each setting before and after sharding."""
    expected = score_and_differentiate(make_model("qwen3", num_hidden_layers=3), samples)
    num_ranks, errors = torch.distributed.get_world_size(), []
    for setting, order in itertools.product(SETTINGS, ["before", "after"]):
        model = make_model("qwen3", num_hidden_layers=3)
        if order == "before":
            limit_activations(model, setting)
        root = shard(model)
        if order == "after":
            limit_activations(model, setting)
        logprobs, loss = root.score(samples)
        loss.backward()
        found = [logprobs.detach(), *(p.grad.full_tensor() / num_ranks for p in model.parameters())]
        errors.append((setting, order, max(map(relative_error, found, expected))))
    return errors


@pytest.mark.slow
def test_sharded_layers_have_the_gradients_of_whole_ones(ranks, samples):
    for errors in ranks(2, measure_errors, samples):
        assert len(errors) == 2 * len(SETTINGS)
        assert [case for case in errors if not case[2] < 2e-6] == []
