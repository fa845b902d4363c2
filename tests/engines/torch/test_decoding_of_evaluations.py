"""Sampling filters for evaluations, compared with their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.models.small_models import make_model
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.engines.torch.sampling import sample, shape_logits
from turnsmith.types import SamplingParams

hundredths = st.lists(st.integers(-500, 500), min_size=2, max_size=12, unique=True)
logits = hundredths.map(lambda values: torch.tensor(values) / 100)


def kept(shaped):
    return set(shaped.isfinite().nonzero().squeeze(1).tolist())


@given(logits, st.floats(0.05, 0.99))
def test_top_p_keeps_the_smallest_set_with_that_probability(values, top_p):
    shares = values.softmax(-1)
    chosen, total = set(), 0.0
    for index in shares.argsort(descending=True).tolist():
        if total >= top_p - 1e-6:
            break
        chosen.add(index)
        total += float(shares[index])
    found = kept(shape_logits(values, SamplingParams(top_p=top_p), []))
    assert chosen <= found and len(found) <= len(chosen) + 1
    assert min(shares[list(found)]) >= max([0.0, *(shares[i] for i in range(len(shares)) if i not in found)])


@given(logits, st.integers(1, 15))
def test_top_k_keeps_the_k_most_likely_tokens(values, top_k):
    assert kept(shape_logits(values, SamplingParams(top_k=top_k), [])) == set(
        values.argsort(descending=True)[:top_k].tolist()
    )


@given(logits, st.floats(0.1, 3.0))
def test_temperature_divides_logits_and_zero_is_greedy(values, temperature):
    torch.testing.assert_close(shape_logits(values, SamplingParams(temperature=temperature), []), values / temperature)
    assert kept(shape_logits(values, SamplingParams(temperature=0.0), [])) == {int(values.argmax())}


def test_min_p_and_the_repetition_penalty():
    values = torch.tensor([2.0, 1.0, -1.0, -3.0])
    shares = values.softmax(-1)
    assert kept(shape_logits(values, SamplingParams(min_p=float(shares[1] / shares[0]) - 0.01), [])) == {0, 1}
    penalised = shape_logits(values, SamplingParams(repetition_penalty=2.0), [0, 0, 2])
    torch.testing.assert_close(penalised, torch.tensor([1.0, 1.0, -2.0, -3.0]))


def test_log_probs_are_the_policys_under_any_decoding():
    values = torch.tensor([[2.0, 1.0, -1.0]])
    greedy = torch.stack([shape_logits(values[0], SamplingParams(temperature=0.0), [])])
    for uniform in (0.0, 0.5, 0.999999):
        token_ids, logprobs = sample(values, torch.tensor([uniform], dtype=torch.float64), greedy)
        assert token_ids.tolist() == [0] and logprobs[0] == values[0].log_softmax(-1)[0]


def make_engine():
    return InProcessEngine(make_model(), max_context=100, num_blocks=4 * blocks_for(100))


def ask(params, *, trains, seed=0):
    return GenerateRequest("a", [1, 2, 3], 20, frozenset(), seed=seed, params=params, trains=trains)


async def test_only_evaluations_may_decode_greedily():
    greedy = SamplingParams(temperature=0.0)
    first, second = [(await make_engine().generate(ask(greedy, trains=False, seed=seed))).token_ids for seed in (1, 2)]
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ValueError, match="the policy's own distribution"):
        await make_engine().generate(ask(greedy, trains=True))
