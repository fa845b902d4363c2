"""Conformance tests for engines: the in-process one, and another implementation in a second process."""

import asyncio

import numpy as np
import pytest
import torch

from support.engines.pairs import NAMES, PAIRS
from support.models.small_models import VOCABULARY, make_model, stream
from turnsmith.engines.base import GenerateRequest, SavedWeights, SharedWeights
from turnsmith.errors import EngineError
from turnsmith.types import digest_turn

torch.set_num_threads(1)

PROMPT = np.random.default_rng(0).integers(0, VOCABULARY, 20)
NO_STOP: frozenset[int] = frozenset()


@pytest.fixture(params=NAMES)
def engine(request, tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    engine = PAIRS[request.param].open_engine(tmp_path / "base")
    yield engine
    engine.close()


def ask(episode="a", history=PROMPT, num=8, stop=NO_STOP, seed=0):
    return GenerateRequest(episode, history, num, stop, seed)


@torch.no_grad()
def plain_logprobs(history, token_ids, model_seed=0):
    """Compute log-probs from one transformers forward over the whole sequence."""
    model = make_model(seed=model_seed)
    model.set_attn_implementation("eager")
    whole = torch.tensor([*history.tolist(), *token_ids.tolist()])
    scores = model(whole[None]).logits[0].log_softmax(-1)
    at = torch.arange(len(history), len(whole))
    return scores[at - 1, whole[at]].numpy()


async def test_log_probs_match_the_model(engine):
    completion = await engine.generate(ask(num=30))
    assert completion.token_ids.dtype == np.int32 and completion.logprobs.dtype == np.float32
    expected = plain_logprobs(PROMPT, completion.token_ids)
    np.testing.assert_allclose(completion.logprobs, expected, rtol=0, atol=2e-5)


async def test_later_turns_of_an_episode_are_scored_after_their_whole_history(engine):
    history = PROMPT
    for turn in range(4):
        completion = await engine.generate(ask(history=history, seed=turn))
        expected = plain_logprobs(history, completion.token_ids)
        np.testing.assert_allclose(completion.logprobs, expected, rtol=0, atol=2e-5)
        history = np.concatenate([history, completion.token_ids, [1, 2, 3]])
    engine.release("a")


async def test_completion_has_the_digest_of_its_turn(engine):
    for episode, history in (("a", PROMPT), ("b", PROMPT[:7])):
        completion = await engine.generate(ask(episode, history))
        sampled = completion.token_ids, completion.logprobs, completion.policy_version
        assert completion.digest == digest_turn(episode, history, *sampled)


async def test_turn_ends_with_a_stop_token_or_at_its_limit(engine):
    free = await engine.generate(ask("a", num=12))
    assert (len(free.token_ids), free.finish_reason) == (12, "length")
    stop = int(free.token_ids[5])
    stopped = await engine.generate(ask("b", num=12, stop=frozenset({stop})))
    first = free.token_ids.tolist().index(stop)
    assert stopped.token_ids.tolist() == free.token_ids[: first + 1].tolist()
    assert stopped.finish_reason == "stop"


async def test_seed_determines_tokens_in_any_batch(engine):
    together = await asyncio.gather(*(engine.generate(ask(f"e{seed}", seed=seed)) for seed in range(6)))
    alone = [await engine.generate(ask(f"again-{seed}", seed=seed)) for seed in range(6)]
    assert [c.token_ids.tolist() for c in together] == [c.token_ids.tolist() for c in alone]
    assert len({tuple(c.token_ids.tolist()) for c in alone}) > 1


@pytest.mark.parametrize("kind", ["saved", "shared", "streamed"])
async def test_new_weights_take_effect_at_once_with_their_version(engine, tmp_path, kind):
    before = await engine.generate(ask())
    assert before.policy_version == engine.policy_version == 0
    model = make_model(seed=5)
    model.save_pretrained(tmp_path / "new")
    sources = {
        "saved": SavedWeights(3, tmp_path / "new"),
        "shared": SharedWeights(3, model),
        "streamed": stream(model, 3),
    }
    await engine.load_weights(sources[kind])
    after = await engine.generate(ask())
    assert after.policy_version == engine.policy_version == 3
    np.testing.assert_allclose(after.logprobs, plain_logprobs(PROMPT, after.token_ids, model_seed=5), rtol=0, atol=2e-5)


async def test_history_may_become_shorter(engine):
    await engine.generate(ask())
    other = np.concatenate([PROMPT[:10], [3, 4]])
    completion = await engine.generate(ask(history=other))
    np.testing.assert_allclose(completion.logprobs, plain_logprobs(other, completion.token_ids), rtol=0, atol=2e-5)


async def test_closed_engine_raises_and_may_be_closed_again(engine):
    await engine.generate(ask())
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        await engine.generate(ask("b"))
