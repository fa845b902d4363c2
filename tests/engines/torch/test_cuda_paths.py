"""Branches for CUDA without a GPU: results with a plain kernel on a CPU; devices, dtypes and waits on fake tensors."""

import asyncio
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.models.fake_device import DTYPES, FORWARD, META, fake_gpu
from support.models.plain_varlen import attend_plainly, plain_varlen
from support.models.small_models import VOCABULARY, make_model
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch import attention, inprocess, paged_attention
from turnsmith.engines.torch.attention import expand_heads
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, PAGE_TOKENS, Span, blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.types import SamplingParams

torch.set_num_threads(1)
CPU = torch.device("cpu")
CONTEXT = 400
needs_fake_cuda = pytest.mark.skipif(FORWARD == META, reason="fake CUDA tensors need a build of torch with CUDA")


class StepCounter(InProcessEngine):
    """Engine that counts its steps."""

    num_steps = 0

    def _step(self):
        self.num_steps += 1
        super()._step()


def make_engine(model, dtype=torch.float32):
    return StepCounter(model, max_context=CONTEXT, num_blocks=8 * blocks_for(CONTEXT), dtype=dtype)


async def play(engine, index, params=None):
    """Play two turns after a prompt that siblings share, longer than a block."""
    rng = random.Random(index)
    token_ids = [rng.randrange(VOCABULARY) for rng in [random.Random(0)] for _ in range(PAGE_TOKENS + 20)]
    logprobs = []
    for turn in range(2):
        request = GenerateRequest(f"e{index}", token_ids, 5, frozenset(), 10 * index + turn, params or SamplingParams())
        answer = await engine.generate(request)
        logprobs += answer.logprobs.tolist()
        token_ids = [*token_ids, *answer.token_ids.tolist(), *(rng.randrange(VOCABULARY) for _ in range(index + 1))]
    return token_ids, logprobs


async def play_all(engine, num_episodes=3, params=None):
    return await asyncio.gather(*(play(engine, index, params) for index in range(num_episodes)))


@pytest.mark.parametrize("has_pages, block_tokens", [(True, PAGE_TOKENS), (False, BLOCK_TOKENS)])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
async def test_an_engine_with_the_kernel_samples_what_it_samples_without(kind, has_pages, block_tokens, monkeypatch):
    expected = await play_all(make_engine(make_model(kind)))
    monkeypatch.setattr(attention, "varlen_attn", plain_varlen)
    monkeypatch.setattr(paged_attention, "has_kernel", lambda device, dtype: True)
    monkeypatch.setattr(paged_attention, "HAS_PAGES", has_pages)
    monkeypatch.setattr(inprocess, "MAX_STEP_TOKENS", 100)
    engine = make_engine(make_model(kind))
    assert engine._store.block_tokens == block_tokens
    for (token_ids, logprobs), (other_ids, other_logprobs) in zip(await play_all(engine), expected, strict=True):
        assert token_ids == other_ids
        np.testing.assert_allclose(logprobs, other_logprobs, rtol=0, atol=1e-4)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 60))
def test_groups_of_copies_keep_the_order_and_the_bound(ends, bound):
    spans = [Span([0], end - 1, 1) for end in ends]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged_attention, "MAX_COPIED_TOKENS", bound)
        groups = paged_attention.bound_copies(spans)
    assert [span for group in groups for span in group] == spans
    assert all(sum(span.end for span in group) <= bound or len(group) == 1 for group in groups)
    assert all(sum(span.end for span in one) + other[0].end > bound for one, other in pairwise(groups))


def test_decode_steps_are_computed_apart_from_prefills():
    spans = [Span([0], 9, 1), Span([1], 3, 1), Span([2], 0, 30)]
    for make in (paged_attention.make_paged_parts, paged_attention.make_copied_parts):
        assert [part.num_tokens for part in make(spans, CPU)] == [2, 30]
        assert [part.num_tokens for part in make(spans[:2], CPU)] == [2]
        assert [part.num_tokens for part in make(spans[2:], CPU)] == [30]


@needs_fake_cuda
@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
@pytest.mark.parametrize("has_pages", [True, False])
def test_a_step_on_fake_tensors_waits_once_for_the_device(kind, has_pages, monkeypatch):
    if has_pages and not attention.HAS_PAGES:
        pytest.skip("the kernel of this torch reads no blocks")
    monkeypatch.setattr(paged_attention, "HAS_PAGES", has_pages)
    monkeypatch.setattr(inprocess, "MAX_STEP_TOKENS", 100)
    with fake_gpu(FORWARD) as waits:
        with FORWARD:
            engine = make_engine(make_model(kind), DTYPES[FORWARD.type])
        waits.places.clear()
        episodes = asyncio.run(play_all(engine))
    assert [len(logprobs) for _, logprobs in episodes] == [10, 10, 10]
    assert {place.split(":")[0] for place in waits.places} == {"copy at engines/torch/transfer.py"}
    # Two prefills of 100 tokens complete no prompt, so nothing is sampled.
    assert len(waits.places) == engine.num_steps - 2


@needs_fake_cuda
@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0.7, top_k=5, top_p=0.9), SamplingParams(repetition_penalty=1.1)]
)
def test_filters_of_evaluations_wait_no_longer(params, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.torch.inprocess.check_request", lambda request, max_context: None)
    with fake_gpu(FORWARD) as waits:
        with FORWARD:
            engine = make_engine(make_model(), DTYPES[FORWARD.type])
        waits.places.clear()
        asyncio.run(play_all(engine, params=params))
    assert len(waits.places) == engine.num_steps


@needs_fake_cuda
def test_a_fake_gpu_notices_waits_and_other_devices():
    with fake_gpu(FORWARD, counts=[2]) as waits:
        values = torch.ones(3, device=FORWARD)
        values.sum().item(), values.nonzero(), values.cpu(), torch.tensor([1, 2], device=FORWARD)
        assert [place.split()[0] for place in waits.places] == ["item", "nonzero", "copy", "copy"]
        torch.ones(3).to(FORWARD, non_blocking=True)
        assert len(waits.places) == 4
        with pytest.raises(RuntimeError, match="device"):
            values + torch.ones(3)


def test_expanded_heads_give_the_same_attention():
    query, keys, values = (torch.randn(heads, 7, 8) for heads in (6, 2, 2))
    expected = attend_plainly(query, keys, values)
    assert [tensor.shape[0] for tensor in expand_heads(query, keys, values)] == [2, 2]
    with fake_gpu(FORWARD):
        fake = (torch.empty(heads, 7, 8, device=FORWARD) for heads in (6, 2, 2))
        expanded = expand_heads(*fake)
    assert [len(tensor) for tensor in expanded] == ([6, 6] if FORWARD.type == "cuda" else [2, 2])
    expanded = (tensor.repeat_interleave(3, -3) for tensor in (keys, values))
    torch.testing.assert_close(attend_plainly(query, *expanded), expected)
