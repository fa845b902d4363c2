"""Trainer's branches for CUDA without a GPU: devices, dtypes and waits on fake tensors; casts that the engine cached."""

import asyncio

import pytest
import torch

from support.models.fake_device import DTYPES, FORWARD, META, fake_gpu
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.training import head
from turnsmith.training import model as model_module
from turnsmith.training.local import LocalTrainer
from turnsmith.types import MicroBatch

WAITS_PER_MICRO_BATCH = 9
"""Inputs to the device, the number of tokens in the loss, and the loss; none per layer or per tile of the head."""


def policy_gradient(logprobs: torch.Tensor, tokens: LossTokens):
    return -(logprobs * tokens.advantages).mean(), {}


def make_trainer(make_model, device, kind, num_layers):
    with device:
        model = make_model(kind, num_hidden_layers=num_layers)
    return LocalTrainer(model, OptimizerConfig(), dtype=DTYPES[device.type])


def run_on_fake_gpu(make_model, samples, device, kind, num_layers, method, *arguments):
    """Call a trainer's method on fake tensors; return its result and the places of its waits."""
    micro_batches = [MicroBatch(samples[:2]), MicroBatch(samples[2:])]
    with fake_gpu(device, [each.num_loss_tokens for each in micro_batches]) as waits:
        trainer = make_trainer(make_model, device, kind, num_layers)
        waits.places.clear()
        result = asyncio.run(getattr(trainer, method)(micro_batches, *arguments))
    return result, waits.places


def limit_logits(monkeypatch):
    """Let several chunks or tiles of logits pass the head."""
    for module, name in ((model_module, "MAX_CHUNK_LOGITS"), (head, "CPU_TILE"), (head, "GPU_TILE")):
        monkeypatch.setattr(module, name, 61 * 5)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
@pytest.mark.parametrize("method", ["logprobs", "surprisal"])
def test_scoring_on_fake_tensors_waits_as_often_with_more_layers(make_model, samples, monkeypatch, kind, method):
    limit_logits(monkeypatch)
    (_, few), (_, many) = (run_on_fake_gpu(make_model, samples, FORWARD, kind, num, method) for num in (1, 4))
    assert few == many
    assert len(many) <= 2 * WAITS_PER_MICRO_BATCH


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_a_step_on_fake_tensors_waits_as_often_with_more_layers(make_model, samples, monkeypatch, kind):
    limit_logits(monkeypatch)
    (_, few), (metrics, many) = (
        run_on_fake_gpu(make_model, samples, META, kind, num, "step", policy_gradient) for num in (1, 4)
    )
    assert few == many
    assert len(many) <= 2 * WAITS_PER_MICRO_BATCH + 1  # and the gradient's norm
    assert metrics["optimizer/learning_rate"] > 0


async def test_a_step_during_a_turn_has_the_gradients_of_all_weights(make_model, samples):
    async def train(during_a_turn):
        model = make_model()
        trainer = LocalTrainer(model, OptimizerConfig(learning_rate=1e-9), dtype=torch.bfloat16)
        engine = InProcessEngine(model, max_context=200, num_blocks=8, dtype=torch.bfloat16)
        turn = asyncio.create_task(engine.generate(GenerateRequest("a", [1, 2, 3], 150, frozenset(), seed=0)))
        while during_a_turn and not engine._rows:
            await asyncio.sleep(0)
        if not during_a_turn:
            await turn
        gradients = {}
        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=name: gradients.update({name: p.grad.clone()}))
        await trainer.step([MicroBatch(samples)], policy_gradient)
        await turn
        return gradients

    disturbed, undisturbed = await train(during_a_turn=True), await train(during_a_turn=False)
    assert disturbed.keys() == undisturbed.keys() == dict(make_model().named_parameters()).keys()
    for name, gradient in disturbed.items():
        torch.testing.assert_close(gradient, undisturbed[name])
