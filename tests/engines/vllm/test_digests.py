"""Digests of weights compared with their definition, and the errors they detect."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file

from support.engines import plain_digests
from support.models.small_models import make_model
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.vllm.handover import WeightsDiffer, WeightWriter, compare_layers
from turnsmith.engines.vllm.inside.turnsmith_vllm.digests import digest_bytes, digest_layers

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
    assert {n: digest_bytes(t) for n, t in weights.items()} == {
        n: plain_digests.digest_bytes(a) for n, a in plain.items()
    }


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


def test_a_hundred_corrupted_updates_are_detected(tmp_path):
    """Corrupt bits of the transferred file, or a number, row or matrix of the held weights."""
    old, new = (dict(make_model(seed=seed).named_parameters()) for seed in (0, 1))
    weight_file = WeightWriter(save(tmp_path / "base"), torch.float32, tmp_path).write(
        SharedWeights(1, make_model(seed=1))
    )
    compare_layers(digest_layers(new.items(), torch.float32), weight_file)
    rng = np.random.default_rng(0)
    good = weight_file.path.read_bytes()
    matrices = [name for name, tensor in new.items() if tensor.dim() > 1]
    noticed = 0
    for attempt in range(100):
        if attempt % 2:
            bad = bytearray(good)
            at = int(rng.integers(len(bad)))
            bad[at] ^= 1 << int(rng.integers(8))
            (tmp_path / "bad.safetensors").write_bytes(bad)
            noticed += not is_as_sent(tmp_path / "bad.safetensors", weight_file, good)
            continue
        name = str(rng.choice(matrices))
        held = {key: tensor.detach().clone() for key, tensor in new.items()}
        row = int(rng.integers(len(held[name])))
        if attempt % 3 == 0:
            held[name][row] = old[name][row].detach()
        elif attempt % 3 == 1:
            held[name] = old[name].detach()
        else:
            held[name][row, int(rng.integers(held[name].shape[1]))] *= 1.001
        with pytest.raises(WeightsDiffer, match="policy version 1"):
            compare_layers(digest_layers(held.items(), torch.float32), weight_file)
        noticed += 1
    assert noticed == 100


def is_as_sent(path, weight_file, good):
    """Return True if the transport accepts the file; a flipped header bit may be harmless."""
    try:
        weights = load_file(path)
    except SafetensorError:
        return False
    return {name: digest_bytes(tensor) for name, tensor in weights.items()} == weight_file.byte_digests


def save(directory):
    make_model(seed=0).save_pretrained(directory)
    return directory
