"""Sampler compared with plain references."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.engines.torch.sampling import draw_uniforms, sample


@given(st.integers(0, 1_000))
def test_sampling_is_the_inverse_of_the_cumulative_distribution(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(5, 23, generator=generator)
    uniforms = torch.rand(5, generator=generator, dtype=torch.float64)
    token_ids, logprobs = sample(logits, uniforms)
    for row in range(5):
        shares = np.exp(logits[row].double().numpy())
        cumulative = np.cumsum(shares / shares.sum())
        assert token_ids[row] == np.searchsorted(cumulative, uniforms[row].item(), side="right")
        assert logprobs[row].item() == pytest.approx(np.log(shares / shares.sum())[token_ids[row]], abs=1e-5)


def test_an_impossible_token_is_never_sampled_even_at_the_ends():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]] * 3)
    token_ids, _ = sample(logits, torch.tensor([0.0, 0.5, np.nextafter(1.0, 0.0)], dtype=torch.float64))
    assert token_ids.tolist() == [1, 3, 3]


def test_uniforms_depend_on_the_seed_and_longer_draws_share_a_prefix():
    assert np.array_equal(draw_uniforms(3, 10), draw_uniforms(3, 20)[:10])
    assert not np.array_equal(draw_uniforms(3, 10), draw_uniforms(4, 10))
