"""Log-probs in tiles, compared with log-probs from all logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.errors import UsageError
from turnsmith.training import head
from turnsmith.training.head import HeadLogprobs
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.training.shape import CPU_TILE
from turnsmith.types import MicroBatch


def plain_logprobs(hidden, weight, bias, token_ids):
    """Compute log-probs from all logits at once."""
    logits = torch.nn.functional.linear(hidden, weight, bias)
    return logits.log_softmax(-1).gather(1, token_ids[:, None])[:, 0]


def make_inputs(num_tokens, vocabulary, *, has_bias, size=5, dtype=torch.float64, scale=1.0):
    shapes = [(num_tokens, size), (vocabulary, size), (vocabulary,)]
    hidden, weight, bias = ((scale * torch.randn(shape, dtype=dtype)).requires_grad_() for shape in shapes)
    return [hidden, weight, bias if has_bias else None, torch.randint(0, vocabulary, (num_tokens,))]


def differentiate(function, inputs):
    """Return values, and the gradients of a weighted sum of them."""
    values = function(*inputs)
    total = (values * torch.linspace(-1, 2, len(values))).sum()
    return values.detach(), torch.autograd.grad(total, [each for each in inputs[:3] if each is not None])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 40), st.booleans(), st.integers(1, 80), st.integers(1, 9), st.integers(0, 9))
def test_any_tiles_give_the_values_and_gradients_of_all_logits(num, vocabulary, has_bias, tile, tokens, seed):
    torch.manual_seed(seed)
    inputs = make_inputs(num, vocabulary, has_bias=has_bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head, "CPU_TILE", tile)
        patch.setattr(head, "CPU_TOKENS", tokens)
        found = differentiate(HeadLogprobs.apply, inputs)
    torch.testing.assert_close(found, differentiate(plain_logprobs, inputs), rtol=1e-11, atol=1e-11)


def test_gradients_equal_differences_of_values(monkeypatch):
    monkeypatch.setattr(head, "CPU_TILE", 6)
    assert torch.autograd.gradcheck(HeadLogprobs.apply, make_inputs(4, 7, has_bias=True))


def test_large_logits_neither_overflow_nor_lose_the_log_prob():
    inputs = make_inputs(6, 30, has_bias=False, dtype=torch.float32, scale=30.0)
    found, gradients = differentiate(HeadLogprobs.apply, inputs)
    exact = [each.detach().double().requires_grad_() for each in inputs[:2]]
    expected, right = differentiate(plain_logprobs, [*exact, None, inputs[3]])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close([gradient.double() for gradient in gradients], list(right), rtol=1e-3, atol=1e-2)


def test_many_tiles_lose_no_digit_in_float32(monkeypatch):
    torch.manual_seed(0)
    inputs = make_inputs(64, 20_000, has_bias=False, dtype=torch.float32, scale=0.5)
    expected = plain_logprobs(*(each.double() for each in inputs[:2]), None, inputs[3])
    monkeypatch.setattr(head, "CPU_TILE", 64 * 10)
    assert (HeadLogprobs.apply(*inputs) - expected).abs().mean() < 1e-6


def test_no_tokens_give_no_log_probs_and_gradients_of_zero():
    hidden, weight, _, token_ids = make_inputs(0, 9, has_bias=False)
    HeadLogprobs.apply(hidden, weight, None, token_ids).sum().backward()
    assert hidden.grad.shape == (0, 5) and not weight.grad.any()


@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_inputs_get_no_gradient(frozen):
    inputs = make_inputs(3, 9, has_bias=False)
    inputs[frozen].requires_grad_(False)
    HeadLogprobs.apply(*inputs).sum().backward()
    found = inputs[1 - frozen].grad.clone()
    inputs[1 - frozen].grad = None
    plain_logprobs(*inputs).sum().backward()
    assert inputs[frozen].grad is None
    torch.testing.assert_close(found, inputs[1 - frozen].grad)


def test_memory_beside_gradients_is_that_of_few_tiles():
    inputs = make_inputs(700, 6_000, has_bias=False, dtype=torch.float32)
    gradients = sum(each.nbytes for each in inputs[:2])
    extra = peak_bytes(lambda: HeadLogprobs.apply(*inputs).sum().backward()) - gradients
    assert extra < 3.5 * 4 * CPU_TILE < 4 * 700 * 6_000 / 4


class OwnHead(torch.nn.Linear):
    """Output head that may compute something else."""


def test_another_class_of_head_is_refused(samples):
    model = make_model()
    model.lm_head.__class__ = OwnHead
    with pytest.raises(
        UsageError, match="the output head of Qwen2ForCausalLM is not a linear layer: use another model"
    ):
        logprobs_of_sampled(model, MicroBatch(samples))
