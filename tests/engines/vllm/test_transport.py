"""Weight transport in a vLLM worker: all weights are loaded as sent, or none."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from support.models.small_models import make_model
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.vllm import inside
from turnsmith.engines.vllm.handover import WeightWriter

STAND_IN = Path(__file__).parents[2] / "support/vllm_stand_in"
NORM, UP = "model.norm.weight", "model.layers.{}.mlp.up_proj.weight"


class Served(nn.Module):
    """Model that loads weights by name, like those of vLLM."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def load_weights(self, weights):
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in weights:
                own[name].copy_(tensor)


@pytest.fixture
def transport(monkeypatch):
    """Import the module as a worker does, next to the stand-in for vLLM."""
    for folder in (STAND_IN, Path(inside.__file__).parent):
        monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("turnsmith_vllm.transport")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("vllm", "turnsmith_vllm")]:
        del sys.modules[name]


@pytest.fixture
def served():
    return Served(make_model(seed=0))


@pytest.fixture
def receive(transport, served):
    """Run an update message through vLLM's phases on a CPU."""

    def receive(**update):
        config = SimpleNamespace(model_config=None)
        engine = transport.FileTransport(None, config, torch.device("cpu"), served)
        engine.start_weight_update()
        engine.update_weights(update)
        engine.finish_weight_update()

    return receive


@pytest.fixture
def weight_file(tmp_path):
    make_model(seed=0).save_pretrained(tmp_path / "base")
    return WeightWriter(tmp_path / "base", torch.float32, tmp_path).write(SharedWeights(1, make_model(seed=1)))


def assert_same_weights(model, other):
    for name, tensor in other.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_intact_weights_are_loaded(receive, served, weight_file):
    receive(path=str(weight_file.path), digests=weight_file.byte_digests)
    assert_same_weights(served.model, make_model(seed=1))


def flip_a_bit(weights):
    weights[UP.format(1)].view(torch.int32)[-1, -1] ^= 1


def swap(weights):
    weights[UP.format(0)], weights[UP.format(1)] = weights[UP.format(1)], weights[UP.format(0)]


SPOILED = {
    "one is missing": (lambda w: w.pop(NORM), "25 weights arrived, and 26 were sent"),
    "one is too many": (lambda w: w.update(another=torch.zeros(2)), "27 weights arrived, and 26 were sent"),
    "one has another name": (lambda w: w.update(another=w.pop(NORM)), "26 weights arrived, and 26 were sent"),
    "a bit is another": (flip_a_bit, "the weight model.layers.1.mlp.up_proj.weight did not arrive as it was sent"),
    "two changed places": (swap, r"the weight model.layers.\d.mlp.up_proj.weight did not arrive as it was sent"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_damaged_weights_are_refused_entirely(receive, served, weight_file, tmp_path, name):
    spoil, told = SPOILED[name]
    weights = load_file(weight_file.path)
    spoil(weights)
    save_file(weights, tmp_path / "spoiled.safetensors")
    with pytest.raises(ValueError, match=told):
        receive(path=str(tmp_path / "spoiled.safetensors"), digests=weight_file.byte_digests)
    assert_same_weights(served.model, make_model(seed=0))
