"""Recorded results for a batch of real trajectories, in float32 on a CPU, with the packaged policy.

Twelve trajectories of a run's second stage, scored by the base policy: ratios reach 4, some are clipped.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import ModelConfig
from turnsmith.training.model import load_model, logprobs_of_sampled
from turnsmith.types import Sample

FROZEN = np.load(Path(__file__).parent / "data" / "frozen_batch.npz")
STRIDE = 61
"""Step between the recorded entries of a gradient."""
LOSSES = {"dapo": partial(dapo_loss, clip_eps_low=0.2, clip_eps_high=0.26), "nll": nll_loss}


def thaw() -> list[Sample]:
    ends = FROZEN["lengths"].cumsum()[:-1]
    columns = [np.split(FROZEN[name], ends) for name in ("token_ids", "loss_mask", "sampled_logprobs")]
    return [
        Sample(str(name), "g", ids, mask, logprobs, np.full(len(ids), advantage))
        for name, advantage, ids, mask, logprobs in zip(FROZEN["names"], FROZEN["advantages"], *columns, strict=True)
    ]


@pytest.fixture(scope="module")
def model():
    return load_model(ModelConfig(path="tiny"))


@pytest.fixture(scope="module")
def samples():
    return thaw()


def test_log_probs_match_the_recorded_ones(model, samples):
    with torch.no_grad():
        rows = {
            sample.trajectory_id: row
            for batch in pack(samples, 4_096)
            for sample, row in zip(
                batch.samples,
                logprobs_of_sampled(model, batch).split([s.num_loss_tokens for s in batch.samples]),
                strict=True,
            )
        }
    found = torch.cat([rows[sample.trajectory_id] for sample in samples]).numpy()
    # Compared with float64, recorded log-probs err by up to 1.1e-5, and the model's own forward by up to 7.1e-6.
    np.testing.assert_allclose(found, FROZEN["logprobs"], rtol=1e-5, atol=1e-5)
    assert np.abs(found - FROZEN["logprobs"]).mean() < 1e-6


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradients_match_the_recorded_ones(name, model, samples):
    model.zero_grad(set_to_none=True)
    loss_fn = partial(LOSSES[name], denominator=batch_denominator(samples))
    total = 0.0
    for batch in pack(samples, 4_096):
        loss, _ = loss_fn(logprobs_of_sampled(model, batch), LossTokens.of(batch))
        loss.backward()
        total += loss.item()
    assert total == pytest.approx(float(FROZEN[f"{name}_loss"]), abs=1e-6)
    gradients = {parameter_name: parameter.grad for parameter_name, parameter in model.named_parameters()}
    assert list(gradients) == FROZEN["parameters"].tolist()
    norms = np.array([gradient.double().norm().item() for gradient in gradients.values()])
    np.testing.assert_allclose(norms, FROZEN[f"{name}_norms"], rtol=1e-5)
    entries = np.concatenate([gradient.flatten()[::STRIDE].numpy() for gradient in gradients.values()])
    scale = np.linalg.norm(FROZEN[f"{name}_gradients"])
    assert np.linalg.norm(entries - FROZEN[f"{name}_gradients"]) <= 1e-5 * scale
