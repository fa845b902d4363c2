"""All memory features at once: one step of the local trainer equals a plain one and takes less memory."""

from functools import partial

import pytest

from support.models.gradients import relative_error
from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.config import OptimizerConfig, TrainerConfig
from turnsmith.training import head
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.local import LocalTrainer
from turnsmith.types import MicroBatch

LEAN = TrainerConfig(activation_checkpointing="selective", offload_activations=True, mlp_tiles=4, moments="8bit")
CONFIG = OptimizerConfig(learning_rate=1e-3, grad_clip=1e9)


def open_trainer(config):
    model = make_model("qwen3", num_hidden_layers=6, hidden_size=64, intermediate_size=512, head_dim=16)
    limit_activations(model, config)
    return LocalTrainer(model, CONFIG, moments=config.moments)


async def take_step(trainer, samples):
    """Return the loss, and the gradients before the update."""
    gradients, parameters = [], list(trainer.model.parameters())
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.extend(p.grad.clone() for p in parameters))
    metrics = await trainer.step([MicroBatch(samples)], partial(nll_loss, denominator=batch_denominator(samples)))
    return metrics["loss/total"], gradients


async def test_all_features_together_give_the_plain_loss_and_gradients(samples, monkeypatch):
    loss, expected = await take_step(open_trainer(TrainerConfig()), samples)
    monkeypatch.setattr(head, "CPU_TILE", 8 * 61)
    lean = open_trainer(LEAN)
    found_loss, found = await take_step(lean, samples)
    assert found_loss == pytest.approx(loss, rel=1e-6)
    assert max(map(relative_error, found, expected)) < 2e-6
    assert {parameter.grad for parameter in lean.model.parameters()} == {None}


def test_all_features_together_take_a_fraction_of_the_memory(make_sample):
    sample, peaks = make_sample(0, length=1_000), []
    for config in (TrainerConfig(), LEAN):
        trainer = open_trainer(config)
        step = trainer._take_step  # the coroutine `step` does the same
        loss_fn = partial(nll_loss, denominator=1.0)
        peaks.append(peak_bytes(lambda step=step, loss_fn=loss_fn: step([MicroBatch([sample])], loss_fn)))
    assert peaks[1] < 0.4 * peaks[0], peaks
