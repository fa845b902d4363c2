"""Losses against plain references written from the paper, in values and gradients."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.losses import LossTokens, batch_denominator, dapo_loss, group_denominators, nll_loss
from turnsmith.types import MicroBatch, Sample

LOW, HIGH = 0.2, 0.3


def make_sample(index, num_tokens, advantage, rng):
    mask = [False] + [rng.random() < 0.5 for _ in range(num_tokens - 2)] + [True]
    logprobs = [-3 * rng.random() if is_in_loss else 0.0 for is_in_loss in mask]
    return Sample(f"t{index}", "ab"[index % 2], list(range(num_tokens)), mask, logprobs, [advantage] * num_tokens)


def make_samples(seed=0, count=6):
    rng = random.Random(seed)
    return [make_sample(index, rng.randint(2, 9), rng.uniform(-2, 2), rng) for index in range(count)]


def plain_objective(logprobs, samples, denominators):
    """Eq. 8, one token after another: min(ρÂ, clip(ρ, 1−ε_low, 1+ε_high)Â), summed, divided."""
    total, position = torch.zeros((), dtype=torch.float64), 0
    for sample in samples:
        for t, is_in_loss in enumerate(sample.loss_mask):
            if is_in_loss:
                ratio = torch.exp(logprobs[position] - sample.sampled_logprobs[t])
                clipped = torch.clip(ratio, 1 - LOW, 1 + HIGH)
                advantage = sample.advantages[t]
                total = total + torch.min(ratio * advantage, clipped * advantage) / denominators[sample.trajectory_id]
                position += 1
    return -total


def near_old(samples, seed, spread=0.5):
    generator = torch.Generator().manual_seed(seed)
    old = LossTokens.of(MicroBatch(samples)).old_logprobs
    return (old + spread * torch.randn(len(old), generator=generator)).double().requires_grad_()


@given(st.integers(0, 200))
def test_dapo_equals_equation_8_in_value_and_gradient(seed):
    samples = make_samples(seed)
    ours, plain = near_old(samples, seed), near_old(samples, seed)
    denominator = batch_denominator(samples)
    tokens = LossTokens.of(MicroBatch(samples))
    loss, _ = dapo_loss(ours, tokens, denominator, clip_eps_low=LOW, clip_eps_high=HIGH)
    expected = plain_objective(plain, samples, dict.fromkeys((s.trajectory_id for s in samples), denominator))
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(ours.grad, plain.grad, atol=1e-6)


def test_groups_weigh_the_same_under_the_group_denominator():
    samples = make_samples(3)
    denominators = group_denominators(samples)
    tokens = LossTokens.of(MicroBatch(samples))
    logprobs = near_old(samples, 3)
    loss, _ = dapo_loss(logprobs, tokens, denominators, clip_eps_low=LOW, clip_eps_high=HIGH)
    per_group = []
    for name in "ab":
        members = [s for s in samples if s.group_id == name]
        one = {s.trajectory_id: math.inf for s in samples} | dict.fromkeys(
            (s.trajectory_id for s in members), float(sum(s.num_loss_tokens for s in members))
        )
        per_group.append(plain_objective(logprobs, samples, one).item())
    assert loss.item() == pytest.approx(sum(per_group) / 2, abs=1e-6)


def test_micro_batches_add_up_to_their_batch():
    samples = make_samples(1)
    logprobs, denominator = near_old(samples, 1), batch_denominator(samples)
    whole, _ = dapo_loss(
        logprobs, LossTokens.of(MicroBatch(samples)), denominator, clip_eps_low=LOW, clip_eps_high=HIGH
    )
    parts, position = 0.0, 0
    for sample in samples:
        part = logprobs[position : position + sample.num_loss_tokens]
        tokens = LossTokens.of(MicroBatch([sample]))
        parts += dapo_loss(part, tokens, denominator, clip_eps_low=LOW, clip_eps_high=HIGH)[0].item()
        position += sample.num_loss_tokens
    assert whole.item() == pytest.approx(parts, abs=1e-6)


def test_clip_fractions_count_only_tokens_whose_gradient_the_clip_stops():
    sample = Sample("t", "g", [0] * 5, [False] + [True] * 4, [-1.0] * 5, [0.0, 1.0, 1.0, -1.0, -1.0])
    logprobs = torch.tensor([-1 + math.log(r) for r in (1.4, 0.5, 1.4, 0.5)], requires_grad=True)
    loss, metrics = dapo_loss(logprobs, LossTokens.of(MicroBatch([sample])), 4.0, clip_eps_low=LOW, clip_eps_high=HIGH)
    loss.backward()
    assert [gradient == 0 for gradient in logprobs.grad.tolist()] == [True, False, False, True]
    assert (metrics["loss/clip_frac_low"], metrics["loss/clip_frac_high"]) == (0.25, 0.25)
    assert metrics["loss/ratio_max"] == pytest.approx(1.4)
    assert metrics["loss/ratio_mean"] == pytest.approx(0.95)


def test_an_unmoved_policy_has_ratio_one_no_clip_and_no_divergence():
    samples = make_samples(2)
    tokens = LossTokens.of(MicroBatch(samples))
    _, metrics = dapo_loss(tokens.old_logprobs, tokens, 1.0, clip_eps_low=LOW, clip_eps_high=HIGH)
    assert metrics["loss/ratio_mean"] == metrics["loss/ratio_max"] == 1.0
    assert metrics["loss/clip_frac_low"] == metrics["loss/clip_frac_high"] == metrics["loss/kl_old_new"] == 0.0


def test_a_wild_log_ratio_stays_finite():
    sample = Sample("t", "g", [0, 1], [False, True], [0.0, -500.0], [-1.0, -1.0])
    logprobs = torch.tensor([-0.1], requires_grad=True)
    loss, metrics = dapo_loss(logprobs, LossTokens.of(MicroBatch([sample])), 1.0, clip_eps_low=LOW, clip_eps_high=HIGH)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logprobs.grad).all()
    assert math.isfinite(metrics["loss/ratio_max"])


def test_nll_is_the_mean_over_the_batch_and_its_gradient_is_uniform():
    samples = make_samples(4)
    logprobs = near_old(samples, 4)
    loss, metrics = nll_loss(logprobs, LossTokens.of(MicroBatch(samples)), batch_denominator(samples))
    loss.backward()
    assert loss.item() == pytest.approx(-logprobs.mean().item()) == pytest.approx(metrics["loss/nll"])
    assert torch.allclose(logprobs.grad, torch.full_like(logprobs, -1 / len(logprobs)))
