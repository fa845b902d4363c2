"""Devices, and memory estimates compared with measurements."""

import pytest
import torch

from turnsmith.config import ModelConfig, TrainerConfig
from turnsmith.engines.torch.attention import hidden_states
from turnsmith.engines.torch.precision import computing_in
from turnsmith.errors import UsageError
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.footprint import find_footprint
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.model import PackedLayout, find_device, load_model
from turnsmith.training.shape import find_shape


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
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "mistral"])
@pytest.mark.parametrize("num_tiles", [1, 4])
def test_predicted_activations_equal_those_that_autograd_keeps(make_model, kind, dtype, num_tiles):
    """Compare a Qwen3 too, whose heads together are larger than its hidden size."""
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4}
    model = make_model(kind, **sizes | ({"head_dim": 48} if kind == "qwen3" else {}))
    trainer = TrainerConfig(mlp_tiles=num_tiles)
    limit_activations(model, trainer)
    kept, num_tokens = kept_bytes(model, dtype, 2_000), 2_000
    casts = dtype.itemsize * count_matrices(model) if dtype != torch.float32 else 0
    footprint = find_footprint(
        find_shape(model.config), trainer, RankLayout(), itemsize=dtype.itemsize, num_tokens=num_tokens
    )
    assert footprint.activations + casts == pytest.approx(kept, rel=0.05)


def count_matrices(model):
    """Count the parameters of the layers' matrices, whose copies in bfloat16 autograd keeps."""
    shape = find_shape(model.config)
    return shape.num_layers * shape.layer_matrices


@pytest.mark.parametrize("layout", [RankLayout(8), RankLayout(8, cp=2), RankLayout(8, cp=4, dp_replicate=2)])
def test_ranks_divide_states_and_context_parallelism_divides_tokens(make_model, layout):
    shape, trainer = find_shape(make_model().config), TrainerConfig(activation_checkpointing="full")
    one, many = (
        find_footprint(shape, trainer, each, itemsize=4, num_tokens=8_000, num_targets=800)
        for each in (RankLayout(), layout)
    )
    num_shards = layout.num_ranks // layout.dp_replicate
    for part in ("weights", "gradients", "moments"):
        assert getattr(many, part) * num_shards == getattr(one, part)
    assert (
        many.activations * layout.cp == one.activations
        and many.logits * layout.cp == one.logits - 4 * shape.head_matrix
    )
    assert one.communication == 0 < many.communication


def test_offload_leaves_two_layer_inputs_and_no_moments_on_a_gpu(make_model):
    shape = find_shape(make_model(num_hidden_layers=12).config)
    trainer = TrainerConfig(activation_checkpointing="full", offload_activations=True, moments="host")
    on_cpu, on_gpu = (
        find_footprint(shape, trainer, RankLayout(), itemsize=4, num_tokens=100, gpu_bytes=gpu_bytes)
        for gpu_bytes in (None, 80e9)
    )
    assert on_cpu.activations - on_gpu.activations == 100 * 10 * 4 * shape.hidden_size
    assert (on_cpu.moments, on_gpu.moments) == (8 * shape.num_parameters, 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_absent_cuda_raises_usage_error_and_auto_uses_the_cpu():
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(
        UsageError, match=r"model.device is cuda, but torch .* sees no CUDA device here: use auto or cpu"
    ):
        load_model(ModelConfig(device="cuda"))
