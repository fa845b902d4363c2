"""DAPO compared with a reference written from the paper, in value and gradient; loss of RFT."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.episodes.small_batches import make_sample, near_old, random_samples, tokens_of
from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator, group_denominators, nll_loss

LOW, HIGH = 0.2, 0.3


def plain_objective(logprobs, samples, denominators):
    """Compute Eq. 8 token by token: min(ρÂ, clip(ρ, 1−ε_low, 1+ε_high)Â), summed, divided."""
    total, position = torch.zeros((), dtype=torch.float64), 0
    for sample in samples:
        for t, is_in_loss in enumerate(sample.loss_mask):
            if is_in_loss:
                ratio = torch.exp(logprobs[position] - float(sample.sampled_logprobs[t]))
                clipped = torch.clip(ratio, 1 - LOW, 1 + HIGH)
                advantage = float(sample.advantages[t])
                total = total + torch.min(ratio * advantage, clipped * advantage) / denominators[sample.trajectory_id]
                position += 1
    return -total


@given(st.integers(0, 200))
def test_dapo_matches_equation_8_in_value_and_gradient(seed):
    samples = random_samples(seed)
    ours, plain = near_old(samples, seed), near_old(samples, seed)
    denominator = batch_denominator(samples)
    loss, _ = dapo_loss(ours, tokens_of(samples), denominator, clip_eps_low=LOW, clip_eps_high=HIGH)
    expected = plain_objective(plain, samples, dict.fromkeys((s.trajectory_id for s in samples), denominator))
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(ours.grad, plain.grad, atol=1e-6)


def test_groups_weigh_the_same_under_the_group_denominator():
    samples = random_samples(3)
    logprobs = near_old(samples, 3)
    denominators = group_denominators(samples)
    loss, _ = dapo_loss(logprobs, tokens_of(samples), denominators, clip_eps_low=LOW, clip_eps_high=HIGH)
    per_group = []
    for name in "gh":
        members = [s for s in samples if s.group_id == name]
        one = {s.trajectory_id: math.inf for s in samples} | dict.fromkeys(
            (s.trajectory_id for s in members), float(sum(s.num_loss_tokens for s in members))
        )
        per_group.append(plain_objective(logprobs, samples, one).item())
    assert loss.item() == pytest.approx(sum(per_group) / 2, abs=1e-6)


def test_clip_fractions_count_only_tokens_with_clipped_gradient():
    better, worse = make_sample("a", [-1.0, -1.0], 1.0), make_sample("b", [-1.0, -1.0], -1.0)
    logprobs = torch.tensor([-1 + math.log(r) for r in (1.4, 0.5, 1.4, 0.5)], dtype=torch.float64, requires_grad=True)
    loss, metrics = dapo_loss(logprobs, tokens_of([better, worse]), 4.0, clip_eps_low=LOW, clip_eps_high=HIGH)
    loss.backward()
    assert [gradient == 0 for gradient in logprobs.grad.tolist()] == [True, False, False, True]
    assert (metrics["loss/clip_frac_low"], metrics["loss/clip_frac_high"]) == (0.25, 0.25)
    assert metrics["loss/ratio_max"] == pytest.approx(1.4)
    assert metrics["loss/ratio_mean"] == pytest.approx(0.95)


def test_nll_is_the_mean_over_the_batch_and_its_gradient_is_uniform():
    samples = random_samples(4)
    logprobs = near_old(samples, 4)
    loss, metrics = nll_loss(logprobs, tokens_of(samples), batch_denominator(samples))
    loss.backward()
    assert loss.item() == pytest.approx(-logprobs.mean().item()) == pytest.approx(metrics["loss/nll"])
    assert torch.allclose(logprobs.grad, torch.full_like(logprobs, -1 / len(logprobs)))
