"""Truncated importance sampling compared with a reference: weights on each token's loss, without gradient."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from support.episodes.small_batches import make_sample, near_old, random_samples, tokens_of
from turnsmith.algo.algorithm import find_algorithm, read_stage_options
from turnsmith.algo.corrections import correct, describe_weights, find_weights
from turnsmith.algo.names import ALGORITHMS
from turnsmith.config import StageConfig

CAP = 2.0


def scored_samples(seed):
    """Make samples whose trainer and engine disagree on both sides of the cap."""
    rng = np.random.default_rng(seed)
    return [
        replace(sample, old_logprobs=np.where(sample.loss_mask, sample.sampled_logprobs + rng.normal(0, 1, len(sample)), 0))
        for sample in random_samples(seed)
    ]  # fmt: skip


def per_token_losses(name, samples, logprobs):
    """Split the loss by token, with all other advantages set to 0."""
    algorithm = find_algorithm(name)
    loss_fn = algorithm.make_loss(samples, read_stage_options(algorithm, StageConfig(algorithm=name)))
    tokens = tokens_of(samples)
    ones = torch.eye(len(logprobs), dtype=torch.float64)
    return torch.stack([loss_fn(logprobs, replace(tokens, advantages=tokens.advantages * one))[0] for one in ones])


@pytest.mark.parametrize("name", sorted(ALGORITHMS.paths))
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_match_a_reference_implementation(name, seed):
    samples = scored_samples(seed)
    tokens, logprobs = tokens_of(samples), near_old(samples, seed)
    # Follow the formula of the blog post.
    weights = (tokens.old_logprobs - tokens.sampled_logprobs).exp().clamp(max=CAP).detach()
    assert (weights == CAP).any() and (weights < 1).any()
    reference = (weights * per_token_losses(name, samples, logprobs)).sum()
    corrected = per_token_losses(name, [correct(sample, CAP) for sample in samples], logprobs).sum()
    gradients = [torch.autograd.grad(loss, logprobs)[0] for loss in (reference, corrected)]
    assert torch.allclose(reference, corrected, rtol=1e-6)
    assert torch.allclose(*gradients, rtol=1e-6, atol=1e-9)


def test_worked_numbers():
    sample = make_sample("a", [-1.0, -1.0, -1.0], 3.0, old_logprobs=[-1.0, -1.0 + np.log(1.5), 7.0])
    assert find_weights(sample, CAP).tolist() == pytest.approx([1.0, 1.0, 1.5, 2.0])
    assert correct(sample, CAP).advantages.tolist() == pytest.approx([3.0, 3.0, 4.5, 6.0])
    assert describe_weights([sample], CAP) == pytest.approx({"is/weight_mean": 1.5, "is/capped_share": 1 / 3})


def test_infinite_ratios_are_capped_and_tiny_ones_are_zero():
    sample = make_sample("a", [-1e4, -1.0], 1.0, old_logprobs=[-1.0, -1e4])
    assert find_weights(sample, CAP).tolist() == [1.0, 2.0, 0.0]


def test_correction_is_refused_if_engine_log_probs_are_pi_old():
    assert StageConfig().is_cap is None
    with pytest.raises(ValidationError, match=r"is_cap .* old_logprobs = trainer"):
        StageConfig(is_cap=2.0, old_logprobs="engine")
