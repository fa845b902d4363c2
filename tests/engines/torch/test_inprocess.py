"""In-process engine compared with the trainer, with itself in other batches, and with plain transformers."""

import asyncio
import random
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import AutoConfig

from support.models.small_models import VOCABULARY, make_model, stream
from turnsmith.engines.base import GenerateRequest, SharedWeights
from turnsmith.engines.torch import inprocess
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine, num_positions
from turnsmith.errors import EngineError, UsageError
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch, Sample, SamplingParams

# Use one thread: tiny tensors gain nothing from a second one.
torch.set_num_threads(1)

STOP = 7


def make_engine(model=None, num_episodes=8, max_context=200):
    num_blocks = num_episodes * blocks_for(max_context)
    return InProcessEngine(model or make_model(), max_context=max_context, num_blocks=num_blocks)


def random_tokens(rng, count):
    return [rng.randrange(VOCABULARY) for _ in range(count)]


SYSTEM_PROMPT = random_tokens(random.Random(99), 12)


async def play(engine, index, num_turns=4):
    """Play one episode: a prompt with a shared beginning, then sampled turns and random observations."""
    rng = random.Random(index)
    name = f"episode-{index}"
    token_ids = SYSTEM_PROMPT + random_tokens(rng, rng.randint(1, 20))
    mask, logprobs = [False] * len(token_ids), [0.0] * len(token_ids)
    for turn in range(num_turns):
        request = GenerateRequest(name, token_ids, rng.randint(1, 12), frozenset({STOP}), seed=1000 * index + turn)
        completion = await engine.generate(request)
        observation = random_tokens(rng, rng.randint(0, 15))
        token_ids = token_ids + completion.token_ids.tolist() + observation
        mask += [True] * len(completion.token_ids) + [False] * len(observation)
        logprobs += completion.logprobs.tolist() + [0.0] * len(observation)
        await asyncio.sleep(rng.random() * 0.01)
    engine.release(name)
    return Sample(name, name, token_ids, mask, logprobs, [0.0] * len(token_ids))


async def play_all(engine, indices):
    return await asyncio.gather(*(play(engine, index) for index in indices))


def assert_same(samples, expected):
    for one, other in zip(samples, expected, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        np.testing.assert_allclose(one.sampled_logprobs, other.sampled_logprobs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "mistral", "qwen3", "gpt2"])
async def test_logprobs_equal_the_trainers_for_concurrent_episodes(kind):
    model = make_model(kind)
    samples = await play_all(make_engine(model), range(8))
    with torch.no_grad():
        trained = logprobs_of_sampled(model, MicroBatch(samples))
    sampled = torch.from_numpy(np.concatenate([s.sampled_logprobs[s.loss_mask] for s in samples]))
    assert len(sampled) > 50
    assert (trained - sampled).abs().mean() < 1e-5
    assert (trained - sampled).abs().max() < 1e-3


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
async def test_in_bfloat16_logprobs_are_nearer_to_the_trainers_than_to_those_of_float32(kind):
    model = make_model(kind)
    engine = InProcessEngine(model, max_context=200, num_blocks=40, dtype=torch.bfloat16)
    samples = await play_all(engine, range(8))
    sampled = torch.from_numpy(np.concatenate([s.sampled_logprobs[s.loss_mask] for s in samples]))
    with torch.no_grad():
        trained, exact = (
            logprobs_of_sampled(model, MicroBatch(samples), dtype) for dtype in (torch.bfloat16, torch.float32)
        )
    assert (trained - sampled).abs().mean() < (exact - sampled).abs().mean() < 0.05


async def test_seed_gives_the_same_tokens_in_any_batch():
    together = await play_all(make_engine(), range(6))
    alone = [await play(make_engine(), index) for index in range(6)]
    assert_same(together, alone)


async def test_eviction_and_recomputation_keep_results_equal():
    roomy, tight = make_engine(num_episodes=8), make_engine(num_episodes=1)
    assert_same(await play_all(tight, range(7)), await play_all(roomy, range(7)))
    assert tight.prefilled_tokens > roomy.prefilled_tokens


async def test_long_prompts_take_several_steps_with_equal_results(monkeypatch):
    expected = await play_all(make_engine(), range(3))
    monkeypatch.setattr(inprocess, "MAX_STEP_TOKENS", 5)
    assert_same(await play_all(make_engine(), range(3)), expected)


async def test_only_new_tokens_are_prefilled():
    engine = make_engine()
    prompt = random_tokens(random.Random(0), 30)
    first = await engine.generate(GenerateRequest("a", prompt, 5, frozenset(), seed=1))
    await engine.generate(GenerateRequest("a", prompt + first.token_ids.tolist() + [1, 2, 3], 5, frozenset(), seed=2))
    assert engine.prefilled_tokens == 30 + 1 + 3  # the last sampled token has no keys yet
    assert engine.reused_tokens == 30 + 4


async def test_siblings_that_start_together_compute_their_prompt_once():
    engine = make_engine()
    prompt = random_tokens(random.Random(0), 40)
    requests = [GenerateRequest(f"sibling-{i}", prompt, 3, frozenset(), seed=i) for i in range(6)]
    await asyncio.gather(*(engine.generate(request) for request in requests))
    assert engine.prefilled_tokens == 40 + 5


async def test_a_changed_history_is_recomputed_from_the_first_difference():
    engine, prompt = make_engine(), random_tokens(random.Random(0), 30)
    await engine.generate(GenerateRequest("a", prompt, 5, frozenset(), seed=1))
    changed = [*prompt[:20], (prompt[20] + 1) % VOCABULARY, *prompt[21:]]
    again = await engine.generate(GenerateRequest("a", changed, 5, frozenset(), seed=2))
    fresh = await make_engine().generate(GenerateRequest("a", changed, 5, frozenset(), seed=2))
    assert again.token_ids.tolist() == fresh.token_ids.tolist()
    assert engine.reused_tokens == 20


async def test_stop_token_ends_the_turn_and_belongs_to_it():
    engine = make_engine()
    free = await engine.generate(GenerateRequest("a", [1, 2, 3], 20, frozenset(), seed=5))
    stop = free.token_ids[6]
    stopped = await engine.generate(GenerateRequest("b", [1, 2, 3], 20, frozenset({stop}), seed=5))
    length = free.token_ids.tolist().index(stop) + 1
    assert stopped.token_ids.tolist() == free.token_ids[:length].tolist()
    assert (stopped.finish_reason, free.finish_reason) == ("stop", "length")


async def test_context_limits_a_turn():
    engine = make_engine(max_context=20)
    completion = await engine.generate(GenerateRequest("a", [1] * 15, 50, frozenset(), seed=0))
    assert (len(completion.token_ids), completion.finish_reason) == (5, "length")
    with pytest.raises(ValueError, match="no room"):
        await engine.generate(GenerateRequest("b", [1] * 20, 5, frozenset(), seed=0))


def test_a_context_beyond_the_models_positions_is_refused():
    model = make_model(max_position_embeddings=128)
    make_engine(model, max_context=128)
    with pytest.raises(UsageError, match="max_context 129 is above the 128 positions"):
        make_engine(model, max_context=129)


@pytest.mark.parametrize(
    ("rope", "positions"),
    [
        ({"rope_type": "default"}, 128),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}, 512),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, 128),
    ],
)
def test_stretched_positions_are_read_from_either_convention(rope, positions):
    config = AutoConfig.for_model("qwen2", max_position_embeddings=128, rope_parameters=rope | {"rope_theta": 1e4})
    assert num_positions(config) == positions


async def test_samples_follow_the_softmax():
    model = make_model()
    engine = make_engine(model, num_episodes=64)
    requests = [GenerateRequest(f"e{seed}", [3, 4, 5], 1, frozenset(), seed=seed) for seed in range(3_000)]
    completions = await asyncio.gather(*(engine.generate(request) for request in requests))
    counts = Counter(int(completion.token_ids[0]) for completion in completions)
    shares = model.set_attn_implementation("eager") or model(torch.tensor([[3, 4, 5]])).logits[0, -1].softmax(-1)
    likely = [token for token in range(VOCABULARY) if shares[token] * 3_000 >= 5]
    observed = [counts[token] for token in likely]
    expected = [shares[token].item() * 3_000 for token in likely]
    rest = 3_000 - sum(observed), 3_000 - sum(expected)
    assert chisquare([*observed, rest[0]], [*expected, rest[1]], sum_check=False).pvalue > 1e-3


async def test_new_weights_clear_the_cache():
    model = make_model()
    engine = make_engine(model)
    request = GenerateRequest("a", random_tokens(random.Random(0), 30), 8, frozenset(), seed=1)
    await engine.generate(request)
    model.load_state_dict(make_model(seed=5).state_dict())
    await engine.load_weights(SharedWeights(3, model))
    completion = await engine.generate(request)
    fresh = await make_engine(make_model(seed=5)).generate(request)
    assert completion.token_ids.tolist() == fresh.token_ids.tolist()
    assert completion.policy_version == 3
    assert engine.reused_tokens == 0


async def test_streamed_weights_of_another_shape_are_refused_and_change_nothing():
    model = make_model()
    with pytest.raises(UsageError, match=r"the shape of model\.layers\.2\.\S+ differs"):
        await make_engine(model).load_weights(stream(make_model(seed=5, num_hidden_layers=3), 1))
    for name, tensor in make_model().state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)


async def test_weights_are_cast_once_for_all_steps_and_again_when_they_have_changed():
    model, request = make_model(), GenerateRequest("a", np.arange(30), 8, frozenset(), seed=1)
    engine = InProcessEngine(model, max_context=200, num_blocks=40, dtype=torch.bfloat16)
    await engine.generate(request)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    await engine.load_weights(SharedWeights(1, model))
    changed = await engine.generate(request)
    fresh = InProcessEngine(model, max_context=200, num_blocks=40, dtype=torch.bfloat16)
    assert changed.logprobs.tolist() == (await fresh.generate(request)).logprobs.tolist()


async def test_weights_may_not_change_during_a_turn():
    engine = make_engine()
    turn = asyncio.create_task(engine.generate(GenerateRequest("a", [1, 2], 50, frozenset(), seed=0)))
    await asyncio.sleep(0)
    with pytest.raises(EngineError, match="weights changed"):
        await engine.load_weights(SharedWeights(1, make_model()))
    await turn


async def test_filters_are_refused():
    request = GenerateRequest("a", [1], 5, frozenset(), seed=0, params=SamplingParams(top_p=0.9))
    with pytest.raises(ValueError, match="own distribution"):
        await make_engine().generate(request)


async def test_model_failure_fails_waiting_turns_and_the_engine_recovers():
    model = make_model()
    engine = make_engine(model, num_episodes=2)
    requests = [GenerateRequest(f"e{i}", [1, 2, i], 5, frozenset(), seed=i) for i in range(5)]
    broken = model.lm_head.register_forward_pre_hook(lambda *_: 1 / 0)
    answers = await asyncio.gather(*(engine.generate(request) for request in requests), return_exceptions=True)
    assert all(isinstance(answer, EngineError) and "ZeroDivisionError" in str(answer) for answer in answers)
    broken.remove()
    again = await engine.generate(requests[0])
    np.testing.assert_array_equal(again.token_ids, (await make_engine().generate(requests[0])).token_ids)


async def test_cancelled_turn_frees_its_blocks():
    engine = make_engine(num_episodes=1)
    lost = asyncio.create_task(engine.generate(GenerateRequest("a", [1, 2], 150, frozenset(), seed=0)))
    await asyncio.sleep(0.02)
    lost.cancel()
    request = GenerateRequest("b", [4, 5], 5, frozenset(), seed=0)
    ours, fresh = [await each.generate(request) for each in (engine, make_engine())]
    np.testing.assert_array_equal(ours.token_ids, fresh.token_ids)


async def test_closed_engine_raises_engine_error():
    engine = make_engine()
    engine.close()
    with pytest.raises(EngineError):
        await engine.generate(GenerateRequest("a", [1], 5, frozenset(), seed=0))
