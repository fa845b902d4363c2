"""Local trainer: accumulation, resume, progress, errors."""

import dataclasses
import math
from functools import partial

import pytest
import torch

from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.errors import TrainingError, UsageError
from turnsmith.training.account import leave_out_account
from turnsmith.training.local import LocalTrainer, merge_metrics
from turnsmith.training.optimizer import schedule
from turnsmith.types import MicroBatch, add_tokenizer_provenance

FAST = OptimizerConfig(learning_rate=1e-2, warmup_steps=2, grad_clip=1.0)


def to_lists(rows):
    return {name: row.tolist() for name, row in rows.items()}


def nll(samples):
    return partial(nll_loss, denominator=batch_denominator(samples))


def note_gradients(trainer):
    """Return a list that gets the gradient of each parameter before the next update."""
    gradients = []
    parameters = list(trainer.model.parameters())
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.extend(p.grad.clone() for p in parameters))
    return gradients


async def test_gradients_are_freed_by_the_update(model, samples):
    trainer = LocalTrainer(model, FAST)
    gradients = note_gradients(trainer)
    await trainer.step(pack(samples, 100), nll(samples))
    assert len(gradients) == len([parameter for parameter in model.parameters() if parameter.grad is None]) > 0


async def test_accumulating_over_micro_batches_equals_one_big_batch(make_model, samples):
    loss_fn = partial(dapo_loss, denominator=batch_denominator(samples), clip_eps_low=0.2, clip_eps_high=0.3)
    gradients, metrics = [], []
    for max_tokens in (40, 10_000):
        trainer = LocalTrainer(make_model(), FAST, total_steps=4)
        gradients.append(note_gradients(trainer))
        metrics.append(leave_out_account(await trainer.step(pack(samples, max_tokens), loss_fn)))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients, strict=True))
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-5)


async def test_in_process_weight_update_copies_nothing(model, samples):
    trainer = LocalTrainer(model, FAST)
    engine = InProcessEngine(model, max_context=64, num_blocks=8)
    before = {name: tensor.data_ptr() for name, tensor in model.named_parameters()}
    await trainer.step(pack(samples, 200), nll(samples))
    await engine.load_weights(published := await trainer.publish())
    assert published == SharedWeights(1, model) and published.model is engine._model is model
    assert before == {name: tensor.data_ptr() for name, tensor in model.named_parameters()}
    engine.close()


async def test_loss_decreases_on_a_repeated_batch(model, samples):
    trainer = LocalTrainer(model, FAST, total_steps=30)
    losses = [(await trainer.step(pack(samples, 200), nll(samples)))["loss/nll"] for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]


async def test_resume_midway_gives_bit_identical_losses_and_weights(make_model, samples, tmp_path):
    straight = LocalTrainer(make_model(), FAST, total_steps=6)
    losses = [(await straight.step(pack(samples, 100), nll(samples)))["loss/total"] for _ in range(6)]
    first = LocalTrainer(make_model(), FAST, total_steps=6)
    resumed_losses = [(await first.step(pack(samples, 100), nll(samples)))["loss/total"] for _ in range(3)]
    await first.save(tmp_path / "checkpoint")
    second = LocalTrainer(make_model(seed=9), FAST, total_steps=6)
    await second.load(tmp_path / "checkpoint")
    resumed_losses += [(await second.step(pack(samples, 100), nll(samples)))["loss/total"] for _ in range(3)]
    assert resumed_losses == losses
    assert second.policy_version == straight.policy_version == 6
    pairs = zip(straight.model.parameters(), second.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


async def test_load_restores_the_random_state_and_keeps_the_storage_of_the_weights(make_model, samples, tmp_path):
    trainer = LocalTrainer(make_model(), FAST, total_steps=6)
    await trainer.save(tmp_path / "c")
    expected = torch.rand(3)
    other = LocalTrainer(make_model(seed=1), FAST, total_steps=6)
    pointers = [parameter.data_ptr() for parameter in other.model.parameters()]
    await other.load(tmp_path / "c")
    assert torch.equal(torch.rand(3), expected)
    assert [parameter.data_ptr() for parameter in other.model.parameters()] == pointers


async def test_logprobs_are_parallel_to_tokens_and_zero_outside_the_mask(model, samples):
    rows = await LocalTrainer(model, FAST, total_steps=1).logprobs(pack(samples, 64))
    assert set(rows) == {sample.trajectory_id for sample in samples}
    for sample in samples:
        row = rows[sample.trajectory_id]
        assert len(row) == len(sample)
        assert (row < 0).tolist() == sample.loss_mask.tolist()


async def test_samples_without_loss_tokens_have_zero_logprobs(model, samples):
    trainer = LocalTrainer(model, FAST, total_steps=1)
    silent = dataclasses.replace(samples[0], trajectory_id="silent", loss_mask=[False] * len(samples[0]))
    alone, without = await trainer.logprobs([MicroBatch([silent])]), await trainer.logprobs(pack(samples, 8))
    beside = await trainer.logprobs(pack([silent, *samples], 8))
    assert to_lists(alone) == {"silent": [0.0] * len(silent)}
    assert to_lists(beside) == to_lists(without) | to_lists(alone)


async def test_gradient_is_clipped_and_its_norm_before_is_reported(model, samples):
    config = FAST.model_copy(update={"grad_clip": 1e-3})
    trainer = LocalTrainer(model, config, total_steps=1)
    gradients = note_gradients(trainer)
    metrics = await trainer.step(pack(samples, 10_000), nll(samples))
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm().item()
    assert metrics["optimizer/grad_norm"] > 1e-2
    assert norm == pytest.approx(1e-3, rel=1e-3)


async def test_weight_decay_applies_only_to_matrices(model, samples):
    def indifferent(logprobs, tokens):
        return logprobs.sum() * 0, {"loss/nll": 0.0}

    before = [parameter.clone() for parameter in model.parameters()]
    config = OptimizerConfig(learning_rate=0.1, weight_decay=0.5)
    await LocalTrainer(model, config, total_steps=1).step(pack(samples, 10_000), indifferent)
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old.detach() * (0.95 if old.dim() >= 2 else 1.0))


async def test_non_finite_loss_raises_and_keeps_the_weights(model, samples):
    trainer = LocalTrainer(model, FAST, total_steps=1)
    before = [parameter.clone() for parameter in model.parameters()]
    poisoned = [dataclasses.replace(samples[0], advantages=[math.nan] * len(samples[0])), *samples[1:]]
    loss_fn = partial(dapo_loss, denominator=1.0, clip_eps_low=0.2, clip_eps_high=0.3)
    with pytest.raises(TrainingError, match="the loss is nan at step 0"):
        await trainer.step(pack(poisoned, 10_000), loss_fn)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


async def test_non_finite_gradient_raises(model, samples):
    def exploding(logprobs, tokens):
        return (logprobs * 0).abs().sqrt().sum(), {"loss/nll": 0.0}

    with pytest.raises(TrainingError, match="gradient norm is nan"):
        await LocalTrainer(model, FAST, total_steps=1).step(pack(samples, 10_000), exploding)


async def test_a_batch_without_loss_tokens_is_refused(model, samples):
    silent = add_tokenizer_provenance(dataclasses.replace(samples[0], loss_mask=[False] * len(samples[0])))
    with pytest.raises(ValueError, match="at least one token in the loss"):
        await LocalTrainer(model, FAST, total_steps=1).step([MicroBatch([silent])], nll(samples))


async def test_a_micro_batch_without_loss_tokens_changes_nothing(make_model, samples):
    silent = dataclasses.replace(samples[0], trajectory_id="silent", loss_mask=[False] * len(samples[0]))
    silent = add_tokenizer_provenance(silent)
    plain, mixed = (LocalTrainer(make_model(), FAST, total_steps=1) for _ in range(2))
    expected = await plain.step([MicroBatch(samples)], nll(samples))
    step = await mixed.step([MicroBatch([silent]), MicroBatch(samples)], nll(samples))
    assert leave_out_account(step) == leave_out_account(expected)


def test_schedule_warms_up_then_decays_by_cosine_to_zero():
    scales = [schedule(step, 6, warmup_steps=2) for step in range(7)]
    assert scales[:3] == [0.5, 1.0, 1.0]
    assert scales[3:] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 4)) for k in (1, 2, 3, 4)])
    assert scales[6] == pytest.approx(0.0)


def test_constant_schedule_stays_at_the_peak():
    assert [schedule(step, 0, warmup_steps=2) for step in range(5)] == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_metrics_merge_by_token_weighted_mean_and_maximum():
    parts = [{"a": 1.0, "b_max": 5.0}, {"a": 4.0, "b_max": 2.0}]
    assert merge_metrics(parts, [2, 1]) == {"a": 2.0, "b_max": 5.0}


async def test_error_for_folder_without_checkpoint_names_it(model, tmp_path):
    with pytest.raises(UsageError, match="cannot resume from"):
        await LocalTrainer(model, FAST, total_steps=1).load(tmp_path)


def test_optimizer_follows_the_configuration(make_model):
    config = OptimizerConfig(learning_rate=0.3, beta1=0.5, beta2=0.6, weight_decay=0.2)
    [matrices, vectors] = LocalTrainer(make_model(), config, total_steps=1).optimizer.param_groups
    assert all((group["lr"], group["betas"]) == (0.3, (0.5, 0.6)) for group in (matrices, vectors))
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.2, 0.0)
