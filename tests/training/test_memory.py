"""Devices, and memory estimates compared with measurements."""

import pytest
import torch

from turnsmith.config import ModelConfig, TrainerConfig
from turnsmith.engines.torch.attention import hidden_states
from turnsmith.engines.torch.precision import computing_in
from turnsmith.errors import UsageError
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.memory import activation_bytes, count_parameters
from turnsmith.training.model import PackedLayout, find_device, load_model


def kept_bytes(model, dtype, num_tokens):
    """Measure the bytes that autograd keeps for the backward pass, without weights."""
    storages = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def note(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), computing_in(dtype, model.device):
        layout = PackedLayout([num_tokens], model.device)
        hidden_states(model.get_decoder(), torch.zeros(num_tokens, dtype=torch.long), layout)
    return sum(t.untyped_storage().nbytes() for place, t in storages.items() if place not in weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["qwen2", "llama", "mistral"])
@pytest.mark.parametrize("num_tiles", [1, 4])
@pytest.mark.parametrize("checkpointing", ["none", "full", "selective"])
def test_activation_estimate_is_a_tight_upper_bound(make_model, kind, dtype, checkpointing, num_tiles):
    model = make_model(kind, hidden_size=64, intermediate_size=160, num_hidden_layers=4)
    trainer = TrainerConfig(activation_checkpointing=checkpointing, mlp_tiles=num_tiles)
    limit_activations(model, trainer)
    kept, num_tokens = kept_bytes(model, dtype, 2_000), 2_000
    head = 3 * 4 * num_tokens * model.config.vocab_size
    estimate = activation_bytes(model.config, dtype, num_tokens, trainer, model.device) - head
    # With recomputation, activations of two more layers exist during the backward pass of one.
    assert kept < estimate < (1.7 if checkpointing == "none" else 10) * kept


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_parameters_are_counted_without_allocation(make_model, kind):
    model = make_model(kind)
    assert count_parameters(model.config) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_cuda_raises_usage_error_and_auto_uses_the_cpu():
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(
        UsageError, match=r"model.device is cuda, but torch .* sees no CUDA device here: use auto or cpu"
    ):
        load_model(ModelConfig(device="cuda"))
