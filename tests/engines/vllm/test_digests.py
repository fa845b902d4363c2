"""Digests of weights compared with their definition, and the errors they detect."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.engines import plain_digests
from support.models.small_models import make_model
from turnsmith.engines.vllm.handover import WeightsDiffer, compare_layers
from turnsmith.engines.vllm.inside.turnsmith_vllm.digests import add_digests, digest_layers

torch.set_num_threads(1)

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("chunk", [1, 7, 2**22])
def test_digests_match_their_definition(chunk, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.vllm.inside.turnsmith_vllm.digests.CHUNK_NUMBERS", chunk)
    weights = {
        "model.embed_tokens.weight": draw(0, 9, 5),
        "model.layers.0.mlp.up_proj.weight": draw(1, 4, 3),
        "model.layers.0.input_layernorm.weight": draw(2, 6),
        "model.layers.11.mlp.experts.2.weight": draw(3, 2, 4, 3),
    }
    plain = {name: tensor.numpy() for name, tensor in weights.items()}
    assert digest_layers(weights.items(), torch.float32) == plain_digests.digest_layers(plain)
    in_parts: dict[str, int] = {}
    for item in weights.items():
        add_digests(in_parts, digest_layers([item], torch.float32))
    assert in_parts == digest_layers(weights.items(), torch.float32)


@given(SEEDS, st.sampled_from([torch.float32, torch.bfloat16]))
@settings(max_examples=25)
def test_layers_have_the_same_digest_however_their_rows_are_stacked(seed, dtype):
    query, key, value = draw(seed, 8, 6), draw(seed + 1, 4, 6), draw(seed + 2, 4, 6)
    parts = {
        f"model.layers.3.self_attn.{name}.weight": part for name, part in zip("qkv", (query, key, value), strict=True)
    }
    stacked = torch.cat([query, key, value, torch.zeros(2, 6), -torch.zeros(1, 6)])
    assert digest_layers(parts.items(), dtype) == digest_layers([("model.layers.3.qkv.weight", stacked)], dtype)


@given(SEEDS, st.data())
@settings(max_examples=50)
def test_changed_number_or_foreign_row_changes_the_digest(seed, data):
    name, weight = "model.layers.0.up.weight", draw(seed, 5, 4)
    before = digest_layers([(name, weight)], torch.float32)
    row, column = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    bit = data.draw(st.integers(0, 31))
    changed = weight.clone()
    changed.view(torch.int32)[row, column] ^= 1 << bit if bit < 31 else -(2**31)
    assert digest_layers([(name, changed)], torch.float32) != before
    assert digest_layers([(name, weight.roll(1, 1))], torch.float32) != before
    assert digest_layers([("model.layers.1.up.weight", weight)], torch.float32) != before


def test_a_hundred_corrupted_updates_are_detected():
    """Corrupt a bit, a number, a row or a matrix of the held weights."""
    old, new = (dict(make_model(seed=seed).named_parameters()) for seed in (0, 1))
    sent = digest_layers(new.items(), torch.float32)
    compare_layers(digest_layers(new.items(), torch.float32), sent, policy_version=1)
    rng = np.random.default_rng(0)
    matrices = [name for name, tensor in new.items() if tensor.dim() > 1]
    for attempt in range(100):
        name = str(rng.choice(matrices))
        held = {key: tensor.detach().clone() for key, tensor in new.items()}
        row, column = int(rng.integers(len(held[name]))), int(rng.integers(held[name].shape[1]))
        if attempt % 4 == 0:
            held[name][row] = old[name][row].detach()
        elif attempt % 4 == 1:
            held[name] = old[name].detach()
        elif attempt % 4 == 2:
            held[name][row, column] *= 1.001
        else:
            held[name].view(torch.int32)[row, column] ^= 1 << int(rng.integers(31))
        with pytest.raises(WeightsDiffer, match="policy version 1"):
            compare_layers(digest_layers(held.items(), torch.float32), sent, policy_version=1)
