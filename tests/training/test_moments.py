"""Forms of AdamW's moments: exactness, memory, checkpoints, and equality on one rank and two."""

from functools import partial
from typing import get_args

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from support.models.gradients import relative_error
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import Moments, OptimizerConfig
from turnsmith.errors import UsageError
from turnsmith.training import moments as moments_module
from turnsmith.training.footprint import MOMENT_BYTES
from turnsmith.training.local import LocalTrainer
from turnsmith.training.moments import round_stochastically
from turnsmith.training.optimizer import make_optimizer, require_moments, set_learning_rate

KINDS = get_args(Moments)
CONFIG = OptimizerConfig(learning_rate=1e-2, weight_decay=0.1)
SHAPES = {"matrix": (96, 128), "small": (6, 10), "bias": (301,)}
TOLERANCES = {"float32": 2e-5, "host": 2e-5, "bfloat16": 5e-3, "8bit": 5e-2}
"""Largest relative error of the sum of 20 updates. In float32 it is the rounding of weights that change by 1 %."""


def make_weights():
    """Return a module with weights of three shapes."""
    torch.manual_seed(1)
    return nn.ParameterDict({name: nn.Parameter(torch.randn(shape)) for name, shape in SHAPES.items()})


def make_gradient(shape, step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(shape, generator=generator) * torch.rand(shape, generator=generator)


def train(weights, kind, num_steps=20, place=lambda tensor: tensor):
    """Update weights with given gradients, which `place` puts where the weights are; return the optimizer."""
    optimizer = make_optimizer(weights, CONFIG, kind)
    for step in range(num_steps):
        for name, weight in weights.items():
            weight.grad = place(make_gradient(SHAPES[name], step))
        set_learning_rate(optimizer, 1e-2 / (1 + step))
        optimizer.step()
    return optimizer


def train_plainly(num_steps=20):
    """Return the weights after updates by the formulas of AdamW (Loshchilov and Hutter, algorithm 2) in float64."""
    trained = {}
    for name, weight in make_weights().items():
        first = second = torch.zeros((), dtype=torch.float64)
        value = weight.detach().double()
        for step in range(num_steps):
            gradient, rate = make_gradient(SHAPES[name], step).double(), 1e-2 / (1 + step)
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            value = value * (1 - rate * (0.1 if value.dim() == 2 else 0.0))
            root = (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
            value = value - rate * first / (1 - 0.9 ** (step + 1)) / root
        trained[name] = value.float()
    return trained


@pytest.mark.parametrize("kind", KINDS)
def test_updates_equal_those_of_the_formulas_within_rounding(kind):
    weights, before, expected = make_weights(), make_weights(), train_plainly()
    train(weights, kind)
    for name, weight in weights.items():
        assert relative_error(weight - before[name], expected[name] - before[name]) < TOLERANCES[kind]


@pytest.mark.parametrize("kind", ["bfloat16", "host"])
def test_the_size_of_chunks_changes_nothing(kind, monkeypatch):
    whole, chunked = make_weights(), make_weights()
    train(whole, kind)
    monkeypatch.setattr(moments_module, "CHUNK_ELEMENTS", 128)
    train(chunked, kind)
    assert all(torch.equal(whole[name], chunked[name]) for name in SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_take_the_estimated_memory(kind):
    weights = nn.ParameterDict({"matrix": nn.Parameter(torch.randn(512, 1_024))})
    optimizer = make_optimizer(weights, CONFIG, kind)
    weights["matrix"].grad = torch.ones(512, 1_024)
    optimizer.step()
    state = optimizer.state[weights["matrix"]]
    parts = [getattr(moment, "__dict__", {}) or {"": moment} for moment in (state["exp_avg"], state["exp_avg_sq"])]
    tensors = [tensor for part in parts for tensor in part.values() if isinstance(tensor, torch.Tensor)]
    on_cpu = MOMENT_BYTES["float32" if kind == "host" else kind]
    assert sum(t.nbytes for t in tensors) / weights["matrix"].numel() == pytest.approx(on_cpu, rel=0.01)


def test_stochastic_rounding_keeps_the_expectation_and_is_repeatable():
    weight = torch.randn(100_000)
    values = torch.full_like(weight, 1 + 0.3 * 2**-7)
    rounded = round_stochastically(values, weight, step=3)
    assert set(rounded.tolist()) == {1.0, 1 + 2**-7}
    assert (rounded.float().mean() - 1).item() / 2**-7 == pytest.approx(0.3, abs=0.01)
    assert torch.equal(rounded, round_stochastically(values, weight, step=3))
    assert not torch.equal(rounded, round_stochastically(values, weight, step=4))
    assert torch.equal(rounded[7:90], round_stochastically(values[7:90], weight[7:90], step=3))


def test_the_second_moment_decays_in_bfloat16_as_in_float32():
    weights = {
        kind: nn.ParameterDict({"matrix": nn.Parameter(torch.randn(100, 100))}) for kind in ("float32", "bfloat16")
    }
    means = {}
    for kind, each in weights.items():
        optimizer = make_optimizer(each, CONFIG, kind)
        for step in range(300):
            each["matrix"].grad = torch.full((100, 100), float(step == 0))
            optimizer.step()
        means[kind] = optimizer.state[each["matrix"]]["exp_avg_sq"].float().mean().item()
    assert means["float32"] == pytest.approx(0.001 * 0.999**299, rel=1e-5)
    assert means["bfloat16"] == pytest.approx(means["float32"], rel=0.01)


def nll(samples):
    return partial(nll_loss, denominator=batch_denominator(samples))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_resumed_trainer_continues_bit_by_bit(kind, make_model, samples, tmp_path):
    def open_trainer(seed=0):
        model = make_model(seed=seed, hidden_size=64, intermediate_size=96)
        return LocalTrainer(model, OptimizerConfig(learning_rate=3e-3), total_steps=8, moments=kind)

    async def train(trainer, num_steps):
        return [(await trainer.step(pack(samples, 200), nll(samples)))["loss/total"] for _ in range(num_steps)]

    straight, first, second = open_trainer(), open_trainer(), open_trainer(seed=5)
    losses = await train(straight, 6)
    assert losses[-1] < 0.7 * losses[0]
    assert await train(first, 3) == losses[:3]
    await first.save(tmp_path / "checkpoint")
    await second.load(tmp_path / "checkpoint")
    assert await train(second, 3) == losses[3:]
    pairs = zip(straight.model.parameters(), second.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


async def test_a_checkpoint_with_other_moments_is_refused(make_model, samples, tmp_path):
    await LocalTrainer(make_model(), CONFIG).save(tmp_path / "checkpoint")
    other = LocalTrainer(make_model(), CONFIG, moments="bfloat16")
    with pytest.raises(
        UsageError, match=r"moments of the kind float32, but trainer.moments is bfloat16: set it to float32"
    ):
        await other.load(tmp_path / "checkpoint")


def test_moments_in_8_bits_need_torchao(monkeypatch):
    monkeypatch.setattr("turnsmith.config.extras.find_spec", lambda package: None)
    require_moments("bfloat16")
    with pytest.raises(UsageError, match=r"trainer.moments = 8bit needs torchao: install it by .*turnsmith\[low-bit\]"):
        require_moments("8bit")


def train_shards(kind):
    """Return weights and first moments after updates of shards, as whole tensors."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    place = partial(distribute_tensor, device_mesh=mesh, placements=[Shard(0)])
    weights = nn.ParameterDict({name: nn.Parameter(place(weight.detach())) for name, weight in make_weights().items()})
    optimizer = train(weights, kind, place=place)
    assert all(isinstance(optimizer.state[weight]["exp_avg"], DTensor) for weight in weights.values())
    return {name: weight.detach().full_tensor() for name, weight in weights.items()}


def train_all_shards():
    return {kind: train_shards(kind) for kind in KINDS}


def test_two_ranks_make_the_updates_of_one(ranks):
    expected = {kind: make_weights() for kind in KINDS}
    for kind, weights in expected.items():
        train(weights, kind)
    for trained in ranks(2, train_all_shards):
        for kind in KINDS:
            for name in SHAPES:
                torch.testing.assert_close(trained[kind][name], expected[kind][name].detach(), rtol=1e-6, atol=1e-6)
