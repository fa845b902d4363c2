"""Conformance tests for trainers, and agreement of each trainer with its engine."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch

from support.engines.pairs import NAMES, ON_RANKS, PAIRS
from support.models.small_models import make_model
from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import GenerateRequest, SavedWeights
from turnsmith.errors import ProvenanceError, TrainingError
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

torch.set_num_threads(1)

FAST = OptimizerConfig(learning_rate=1e-2, warmup_steps=2, grad_clip=1.0)


@pytest.fixture(
    scope="module",
    params=[*NAMES, *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.ranks]) for name in ON_RANKS)],
)
def pair(request):
    found = PAIRS[request.param]
    if found.needs_ray:
        request.getfixturevalue("local_ray")
    return found


@pytest.fixture
def base(tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def open_trainer(pair, base):
    """Open trainers of the pair and close them at the end."""
    opened = []

    def open_one(directory=base, config=FAST, total_steps=6):
        opened.append(pair.open_trainer(directory, config, total_steps))
        return opened[-1]

    yield open_one
    for trainer in opened:
        trainer.close()


def nll(samples):
    return partial(nll_loss, denominator=batch_denominator(samples))


def dapo(samples):
    return partial(dapo_loss, denominator=batch_denominator(samples), clip_eps_low=0.2, clip_eps_high=0.3)


@torch.no_grad()
def plain_row(sample):
    model = make_model()
    model.set_attn_implementation("eager")
    token_ids = torch.tensor(sample.token_ids.tolist())
    scores = model(token_ids[None]).logits[0].log_softmax(-1)
    at = np.flatnonzero(sample.loss_mask)
    row = np.zeros(len(sample), np.float32)
    row[at] = scores[at - 1, token_ids[at]].numpy()
    return row


async def test_log_probs_match_the_model_and_are_zero_outside_the_mask(open_trainer, samples):
    rows = await open_trainer().logprobs(pack(samples, 64))
    for sample in samples:
        row = rows.pop(sample.trajectory_id)
        assert row.dtype == np.float32
        np.testing.assert_allclose(row, plain_row(sample), rtol=0, atol=1e-5)
    assert not rows


async def test_steps_reduce_the_loss_and_return_all_metrics(open_trainer, samples):
    trainer = open_trainer(total_steps=30)
    steps = [await trainer.step(pack(samples, 200), nll(samples)) for _ in range(30)]
    assert steps[-1]["loss/nll"] < 0.3 * steps[0]["loss/nll"]
    assert {"loss/total", "optimizer/grad_norm", "optimizer/learning_rate"} <= steps[0].keys()
    rates = [step["optimizer/learning_rate"] for step in steps]
    assert rates[:2] == pytest.approx([0.005, 0.01]) and rates[2] > rates[-1] > 0


async def test_division_into_micro_batches_changes_nothing(open_trainer, samples):
    whole, parts = [await open_trainer().step(pack(samples, size), dapo(samples)) for size in (10_000, 40)]
    assert drop_speeds(parts) == pytest.approx(drop_speeds(whole), abs=1e-5)


def drop_speeds(metrics):
    """Return the metrics that do not depend on the speed of the machine or on the split into micro-batches."""
    return {name: value for name, value in metrics.items() if name.startswith(("loss/", "optimizer/"))}


async def test_sharing_prefixes_changes_neither_log_probs_nor_metrics(open_trainer, samples):
    common = samples[-1]
    samples = [start_with(common, sample) for sample in samples]
    results = []
    for share in (False, True):
        trainer, packed = open_trainer(), pack(samples, 160, share_prefixes=share)
        results.append((await trainer.logprobs(packed), await trainer.step(packed, dapo(samples)), len(packed)))
    (rows, metrics, num), (shared_rows, shared_metrics, num_shared) = results
    assert num_shared < num
    assert all(np.abs(rows[name] - shared_rows[name]).max() < 1e-5 for name in rows)
    assert drop_speeds(shared_metrics) == pytest.approx(drop_speeds(metrics), rel=1e-5, abs=1e-5)


def start_with(common, sample):
    """Put the tokens of another sample, which are partly in the loss, before those of a sample."""
    columns = {name: np.concatenate([getattr(common, name), values]) for name, values in sample.columns().items()}
    return add_tokenizer_provenance(dataclasses.replace(sample, **columns))


async def test_engine_samples_from_published_weights(pair, base, open_trainer, samples):
    trainer, engine = open_trainer(), pair.open_engine(base)
    try:
        for _ in range(3):
            await trainer.step(pack(samples, 200), nll(samples))
        await engine.load_weights(await trainer.publish())
        prompt = np.arange(12)
        completion = await engine.generate(GenerateRequest("a", prompt, 40, frozenset(), seed=1))
        assert completion.policy_version == engine.policy_version == 3
        zeros = np.zeros(len(prompt))
        sample = Sample(
            "a", "g", np.concatenate([prompt, completion.token_ids]), np.arange(52) >= 12,
            np.concatenate([zeros, completion.logprobs]), np.zeros(52),
        )  # fmt: skip
        told = (await trainer.logprobs([MicroBatch([sample])]))["a"]
        assert np.abs(told - sample.sampled_logprobs).max() < 1e-5
    finally:
        engine.close()


async def test_checkpoint_resumes_exactly_and_is_a_model_directory(pair, open_trainer, samples, tmp_path):
    async def train(trainer, num):
        return [(await trainer.step(pack(samples, 100), nll(samples)))["loss/total"] for _ in range(num)]

    straight = await train(open_trainer(), 6)
    first, second = open_trainer(), open_trainer()
    before = await train(first, 3)
    await first.save(tmp_path / "checkpoint")
    await second.load(tmp_path / "checkpoint")
    assert before + await train(second, 3) == straight
    engine = pair.open_engine(tmp_path / "checkpoint")
    try:
        await engine.load_weights(SavedWeights(3, tmp_path / "checkpoint"))
        await engine.generate(GenerateRequest("a", np.arange(5), 3, frozenset(), seed=1))
    finally:
        engine.close()


async def test_non_finite_loss_is_an_error_and_keeps_the_weights(open_trainer, samples):
    trainer = open_trainer()
    before = await trainer.logprobs([MicroBatch(samples)])
    poisoned = [dataclasses.replace(samples[0], advantages=np.full(len(samples[0]), math.nan)), *samples[1:]]
    with pytest.raises(TrainingError, match="loss is nan"):
        await trainer.step([MicroBatch(poisoned)], dapo(samples))
    after = await trainer.logprobs([MicroBatch(samples)])
    assert all((before[name] == after[name]).all() for name in before)


async def test_a_trainer_may_be_closed_twice(open_trainer):
    trainer = open_trainer()
    trainer.close()
    trainer.close()


@torch.no_grad()
def plain_surprisal(samples):
    model = make_model()
    model.set_attn_implementation("eager")
    sums = torch.zeros(3, dtype=torch.float64)
    for sample in samples:
        token_ids = torch.tensor(sample.token_ids.tolist())
        scores = model(token_ids[None]).logits[0].double().log_softmax(-1)
        for at in np.flatnonzero(sample.loss_mask):
            surprise, shares = -scores[at - 1], scores[at - 1].exp()
            entropy = (shares * surprise).sum()
            sums += torch.stack([surprise[token_ids[at]], entropy, (shares * surprise**2).sum() - entropy**2])
    return sums.tolist()


async def test_surprisal_matches_the_models_distributions(open_trainer, samples):
    told = await open_trainer().surprisal(pack(samples, 64))
    assert told.num_tokens == sum(sample.num_loss_tokens for sample in samples)
    assert [told.sampled, told.expected, told.variance] == pytest.approx(plain_surprisal(samples), rel=1e-4)


MISTAKES = {
    "token_ids": lambda sample: np.roll(sample.token_ids, 1),
    "sampled_logprobs": lambda sample: np.nextafter(sample.sampled_logprobs, np.float32(1)),
    "loss_mask": lambda sample: np.arange(len(sample)) > 0,
    "provenance": lambda sample: None,
}


@pytest.mark.parametrize("column", MISTAKES)
async def test_altered_samples_are_refused_and_weights_kept(open_trainer, samples, column):
    trainer, sample = open_trainer(), samples[3]
    before = await trainer.logprobs([MicroBatch(samples)])
    batch = [*samples[:3], dataclasses.replace(sample, **{column: MISTAKES[column](sample)}), *samples[4:]]
    with pytest.raises(ProvenanceError, match=f"{sample.trajectory_id}, .*: the weights are unchanged"):
        await trainer.step(pack(batch, 200), nll(samples))
    after = await trainer.logprobs([MicroBatch(samples)])
    assert all((before[name] == after[name]).all() for name in before)
