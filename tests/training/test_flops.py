"""FLOP formulas and sizes of models, compared with PyTorch's counters."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from support.models.small_models import make_model
from turnsmith.errors import UsageError
from turnsmith.training.flops import attention_flops, count_flops, find_peak
from turnsmith.training.shape import find_shape, read_shape

KINDS = ["qwen2", "qwen3", "llama", "mistral"]


def count_by_torch(model, num_tokens):
    """Count the FLOPs of forward and backward pass: of matrix products with weights, and of attention."""
    model.set_attn_implementation("eager")
    counter = FlopCounterMode(display=False)
    with counter:
        model(torch.zeros(1, num_tokens, dtype=torch.long)).logits.sum().backward()
    counts = counter.get_flop_counts()["Global"]
    return sum(counts.get(name, 0) for name in (torch.ops.aten.mm, torch.ops.aten.addmm)), counts[torch.ops.aten.bmm]


@pytest.mark.parametrize("kind", KINDS)
def test_flops_equal_those_that_torch_counts_with_half_of_the_attention(kind):
    model = make_model(kind, head_dim=24) if kind != "qwen2" else make_model(kind)
    shape, num_tokens = find_shape(model.config), 200
    dense, attention = count_by_torch(model, num_tokens)
    assert count_flops(shape, [num_tokens], num_tokens) - attention_flops(shape, [num_tokens]) == dense
    # Rotary embeddings are a small matrix product too.
    assert attention_flops(shape, [num_tokens]) == pytest.approx(attention / 2, rel=1e-3)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8), st.integers(0, 8))
def test_flops_of_documents_add_up_and_targets_cost_the_head_alone(lengths, num_targets):
    shape = find_shape(make_model("qwen3").config)
    alone = sum(count_flops(shape, [length], 0) for length in lengths)
    head = 6 * shape.vocab_size * shape.hidden_size * num_targets
    assert count_flops(shape, lengths, num_targets) == alone + head


@pytest.mark.parametrize("kind", [*KINDS, "gpt2"])
@pytest.mark.parametrize("is_tied", [True, False])
def test_sizes_from_the_configuration_equal_those_of_the_model(kind, is_tied, tmp_path):
    model = make_model(kind, tie_word_embeddings=is_tied, hidden_size=64, num_hidden_layers=3)
    model.config.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape == find_shape(model.config)
    assert shape.num_parameters == sum(parameter.numel() for parameter in model.parameters())
    [layers] = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList)]
    assert shape.layer_parameters == sum(parameter.numel() for parameter in layers[0].parameters())


def test_qwen3_has_heads_of_128_unless_its_configuration_says_otherwise(tmp_path):
    config = make_model("qwen3").config.to_dict() | {"head_dim": None}
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "head_dim"}))
    assert read_shape(tmp_path).head_dim == 128
    assert find_shape(make_model("qwen3", head_dim=16).config).query_size == 64


@pytest.mark.parametrize("text", ["", "[]", '{"model_type": "qwen2"}', '{"hidden_size": 8}'])
def test_an_unreadable_configuration_raises_usage_error(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"cannot read the sizes of a model from .*config.json"):
        read_shape(tmp_path)


def test_peaks_are_found_by_the_name_of_the_gpu():
    assert find_peak("NVIDIA H200") == find_peak("NVIDIA H100 80GB HBM3") == 989e12
    assert find_peak("NVIDIA H100 PCIe") == 756e12
    assert find_peak("some CPU") is None
    assert not math.isclose(find_peak("NVIDIA A100-SXM4-80GB"), 989e12)
