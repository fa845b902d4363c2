"""Log-probs in tiles, compared with log-probs from all logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnsmith.training import head
from turnsmith.training.head import HeadLogprobs


def plain_logprobs(hidden, weight, bias, token_ids):
    """Compute log-probs from all logits at once."""
    logits = hidden @ weight.t() if bias is None else hidden @ weight.t() + bias
    return logits.log_softmax(-1).gather(1, token_ids[:, None])[:, 0]


def make_inputs(num_tokens, vocabulary, *, has_bias, dtype=torch.float32, scale=1.0):
    shapes = [(num_tokens, 5), (vocabulary, 5), (vocabulary,)]
    hidden, weight, bias = (scale * torch.randn(shape, dtype=dtype) for shape in shapes)
    inputs = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    return [*inputs[:2], inputs[2] if has_bias else None, torch.randint(0, vocabulary, (num_tokens,))]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 40), st.booleans(), st.integers(1, 80), st.integers(1, 9), st.integers(0, 9))
def test_any_tiles_give_the_values_and_gradients_of_all_logits(num, vocabulary, has_bias, tile, tokens, seed):
    torch.manual_seed(seed)
    inputs = make_inputs(num, vocabulary, has_bias=has_bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head, "CPU_TILE", tile)
        patch.setattr(head, "CPU_TOKENS", tokens)
        found, gradients = differentiate(HeadLogprobs.apply, inputs)
    expected, right = differentiate(plain_logprobs, inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, right, rtol=1e-5, atol=1e-5)


def differentiate(function, inputs):
    """Return values, and the gradients of a weighted sum of them."""
    values = function(*inputs)
    total = (values * torch.linspace(-1, 2, len(values))).sum()
    return values.detach(), torch.autograd.grad(total, [each for each in inputs[:3] if each is not None])


def test_gradients_are_exact_in_float64():
    inputs = make_inputs(4, 7, has_bias=True, dtype=torch.float64)
    assert torch.autograd.gradcheck(HeadLogprobs.apply, inputs)


def test_large_logits_neither_overflow_nor_lose_the_log_prob():
    inputs = make_inputs(6, 30, has_bias=False, scale=30.0)
    found, gradients = differentiate(HeadLogprobs.apply, inputs)
    exact = [each.detach().double().requires_grad_() for each in inputs[:2]]
    expected, right = differentiate(plain_logprobs, [*exact, None, inputs[3]])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    torch.testing.assert_close([gradient.double() for gradient in gradients], list(right), rtol=1e-3, atol=1e-2)


def test_no_tokens_give_no_log_probs_and_gradients_of_zero():
    hidden, weight, _, token_ids = make_inputs(0, 9, has_bias=False)
    HeadLogprobs.apply(hidden, weight, None, token_ids).sum().backward()
    assert hidden.grad.shape == (0, 5) and not weight.grad.any()


def test_a_frozen_weight_gets_no_gradient():
    hidden, weight, _, token_ids = make_inputs(3, 9, has_bias=False)
    HeadLogprobs.apply(hidden, weight.detach(), None, token_ids).sum().backward()
    assert weight.grad is None
    plain, right = differentiate(plain_logprobs, [hidden, weight, None, token_ids])
    found, gradients = differentiate(HeadLogprobs.apply, [hidden, weight, None, token_ids])
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(gradients, right)
