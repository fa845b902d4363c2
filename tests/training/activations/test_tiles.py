"""Tiled MLPs: equal gradients, less memory, no further computation within checkpointed layers."""

from collections import Counter

import pytest
import torch
from torch import nn

from support.models.gradients import relative_error, score_and_differentiate
from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.config import TrainerConfig
from turnsmith.errors import UsageError
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.activations.tiles import DECODE_TOKENS, tile_mlps
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt2"])
@pytest.mark.parametrize("num_tiles", [2, 7, 50])
def test_log_probs_and_gradients_equal_those_of_whole_mlps(kind, num_tiles, samples):
    plain, tiled = make_model(kind), make_model(kind)
    tile_mlps(tiled, num_tiles)
    expected, found = (score_and_differentiate(model, samples) for model in (plain, tiled))
    assert max(map(relative_error, found, expected)) < 1e-6


def test_in_bfloat16_tiles_are_as_exact_as_whole_mlps(samples):
    exact, plain, tiled = make_model(), make_model(), make_model()
    tile_mlps(tiled, 7)
    dtypes = Counter()
    tiled.model.layers[0].mlp.down_proj.register_forward_hook(lambda *call: dtypes.update([call[-1].dtype]))
    expected = score_and_differentiate(exact, samples)
    rounded, found = (score_and_differentiate(model, samples, torch.bfloat16) for model in (plain, tiled))
    errors = [sum(map(relative_error, tensors, expected)) for tensors in (rounded, found)]
    assert 0 < errors[1] < 1.2 * errors[0]
    # Each tile is computed twice, in the forward and in the backward pass.
    assert dtypes == {torch.bfloat16: 14}


def count_tiles(model, samples):
    """Return the number of calls of the first layer's down projection in the forward pass, and in the backward pass."""
    calls, phase = Counter(), ["forward"]
    model.model.layers[0].mlp.down_proj.register_forward_pre_hook(lambda *_: calls.update(phase))
    logprobs = logprobs_of_sampled(model, MicroBatch(samples))
    phase[0] = "backward"
    logprobs.sum().backward()
    return calls["forward"], calls["backward"]


@pytest.mark.parametrize("checkpointing", ["none", "full", "selective"])
def test_each_tile_is_recomputed_once_also_within_checkpointed_layers(checkpointing, samples):
    model = make_model()
    limit_activations(model, TrainerConfig(activation_checkpointing=checkpointing, mlp_tiles=4))
    assert count_tiles(model, samples) == (4, 4)


def test_tiles_take_less_memory_than_a_whole_mlp(make_sample):
    sample, peaks = make_sample(0, length=1_000), {}
    for num_tiles in (1, 8):
        model = make_model(intermediate_size=1_024)
        limit_activations(model, TrainerConfig(activation_checkpointing="full", mlp_tiles=num_tiles))
        peaks[num_tiles] = peak_bytes(lambda model=model: score_and_differentiate(model, [sample]))
    assert peaks[8] < 0.3 * peaks[1], peaks


@torch.no_grad()
def test_without_gradients_only_long_inputs_are_tiled():
    mlp, calls = nn.ModuleDict({"mlp": nn.Linear(3, 3)}), []
    mlp["mlp"].forward = lambda hidden: calls.append(hidden.size(1)) or 2 * hidden
    tile_mlps(mlp, 2)
    for length in (DECODE_TOKENS, 2 * DECODE_TOKENS):
        hidden = torch.randn(1, length, 3)
        assert torch.equal(mlp["mlp"](hidden), 2 * hidden)
    assert calls == [DECODE_TOKENS] * 3


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(2, 2), "mlp_tiles cannot find the MLPs of Linear, .*: set it to 1"),
        (nn.ModuleDict({"mlp": nn.LSTM(2, 2)}), "needs MLPs that return one tensor"),
    ],
)
def test_models_that_cannot_be_tiled_are_refused(model, message):
    with pytest.raises(UsageError, match=message):
        tile_mlps(model, 2)
        model["mlp"](torch.zeros(4, 2, requires_grad=True))
