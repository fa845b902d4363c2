"""Engines that filter samples but report unfiltered log-probs are detected by their samples."""

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
from pytest import fixture, mark, raises

from support.models.small_models import make_model
from turnsmith.config import OptimizerConfig, RunConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.errors import TrainingError
from turnsmith.recipes import sampler_check
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.rl import add_old_logprobs, run_stage
from turnsmith.recipes.sampler_check import (
    WARN_SHARE,
    check_sampler,
    describe_evidence,
    draw,
    find_filter,
    list_warnings,
    measure_filter,
    measure_gap,
    measure_surprisal,
)
from turnsmith.rollouts.samples import to_sample
from turnsmith.runs.journal import append_trajectory
from turnsmith.training.base import Surprisal
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Outcome, SamplingParams, Trajectory

from .conftest import CONFIG, STAGE, make_attempt

MAX_CONTEXT, NUM_TURNS, NUM_TOKENS = 200, 32, 120
CHECKED = RunConfig()


class FilteringEngine(InProcessEngine):
    """Engine that samples with other parameters than requested."""

    secret = SamplingParams()

    async def generate(self, request):
        return await super().generate(replace(request, params=self.secret, trains=False))


@fixture(scope="module")
def model():
    return make_model()


def collect(model, secret, seed=0):
    engine = FilteringEngine(model, max_context=MAX_CONTEXT, num_blocks=NUM_TURNS * blocks_for(MAX_CONTEXT))
    engine.secret = secret

    async def turn(index):
        prompt = np.array([1, 2 + index % 9, 3], np.int32)
        completion = await engine.generate(
            GenerateRequest(f"{index}", prompt, NUM_TOKENS, frozenset(), seed=1_000 * seed + index)
        )
        sampled = np.arange(3 + NUM_TOKENS) >= 3
        return Trajectory(
            trajectory_id=f"one/a/{index}", group_id="one/a", index=index, instance_id="a", iteration=0, seed=index,
            token_ids=np.concatenate([prompt, completion.token_ids]), sampled=sampled,
            logprobs=np.concatenate([np.zeros(3), completion.logprobs]),
        )  # fmt: skip

    async def all_turns():
        return await asyncio.gather(*map(turn, range(NUM_TURNS)))

    return asyncio.run(all_turns())


def measure(model, trajectories):
    trainer = LocalTrainer(model, OptimizerConfig())
    samples = [to_sample(trajectory, 1.0) for trajectory in trajectories]

    async def both():
        gap = measure_gap(await add_old_logprobs(trainer, samples, STAGE), CHECKED.logprob_gap)
        told = await measure_surprisal(trainer, trajectories, STAGE)
        return gap, measure_filter(told) | describe_evidence(told.evidence)

    return asyncio.run(both())


@fixture
def stop_share(monkeypatch):
    """Set `sampler_check.STOP_SHARE`; the fixture itself allows any share."""
    set_share = partial(monkeypatch.setattr, sampler_check, "STOP_SHARE")
    set_share(10.0)
    return set_share


@mark.parametrize(
    "secret", [SamplingParams(top_p=0.5), SamplingParams(temperature=0.7), SamplingParams(top_k=3)], ids=str
)
def test_a_hidden_filter_is_detected(model, secret, stop_share):
    trajectories = collect(model, secret)
    gap, metrics = measure(model, trajectories)
    assert gap < 1e-5
    assert metrics["sampler/filter_share"] < -WARN_SHARE
    [warning, setting] = list_warnings(metrics | {"logprob_gap/mean": gap}, CHECKED)
    assert "less surprising" in warning and "top_p" in warning
    assert ("temperature" in setting) is (secret.temperature != 1)
    stop_share(0.01)
    with raises(TrainingError, match=r"less surprising .* the limit is 1%"):
        measure(model, trajectories)


def test_a_high_temperature_is_detected(model, stop_share):
    _, metrics = measure(model, collect(model, SamplingParams(temperature=1.5)))
    assert metrics["sampler/filter_share"] > WARN_SHARE


@mark.parametrize("seed", range(3))
def test_a_correct_engine_causes_no_warning(model, seed):
    gap, metrics = measure(model, collect(model, SamplingParams(), seed))
    assert metrics["sampler/filter_share"] == 0.0
    assert list_warnings(metrics | {"logprob_gap/mean": gap}, CHECKED) == []


def simulate(rng, concentration, num_tokens, secret=lambda shares: shares):
    """Return a function that draws a token from each policy, with an undisclosed change by the engine."""
    shares = rng.dirichlet(np.full(50, concentration), size=num_tokens).clip(1e-30)
    shares /= shares.sum(1, keepdims=True)
    surprise, cumulated = -np.log(shares), secret(shares).cumsum(1)
    entropy = (shares * surprise).sum(1)
    variance = (shares * (surprise - entropy[:, None]) ** 2).sum()

    def draw_tokens():
        drawn = (cumulated > rng.random((num_tokens, 1))).argmax(1)
        return Surprisal(num_tokens, surprise[np.arange(num_tokens), drawn].sum(), entropy.sum(), variance)

    return draw_tokens


def test_the_tolerance_covers_chance_at_any_entropy():
    rng = np.random.default_rng(0)
    for concentration in (0.01, 0.1, 1.0):
        for num_tokens in (20, 500, 4_000):
            draw_tokens = simulate(rng, concentration, num_tokens)
            assert not any(find_filter(draw_tokens()) for _ in range(100))


def keep_most_likely(shares):
    """Filter with top_p=0.95."""
    falling = np.sort(shares, 1)[:, ::-1]
    least = np.where(falling.cumsum(1) - falling < 0.95, falling, 1.0).min(1, keepdims=True)
    kept = np.where(shares >= least, shares, 0.0)
    return kept / kept.sum(1, keepdims=True)


@mark.parametrize("concentration", [0.1, 1.0])
def test_a_weak_filter_exceeds_the_tolerance(concentration):
    """The filter shifts the sum by about eight standard errors only."""
    draw_tokens = simulate(np.random.default_rng(0), concentration, 4_000, keep_most_likely)
    assert all(find_filter(draw_tokens()) < 0.0 for _ in range(20))


async def test_tokens_of_another_policy_stop_the_run_before_weights_change(make_run, folder, monkeypatch):
    """The log-prob gap is allowed to be large here, so only the bound on filters can stop the run."""
    run = make_run()
    monkeypatch.setattr(sampler_check, "count_checked", lambda trajectories: 8_192)
    monkeypatch.setattr(sampler_check, "STOP_SHARE", 0.1)
    for task in run.train_tasks.tasks:
        for index, outcome in enumerate((Outcome.RESOLVED, Outcome.UNRESOLVED)):
            name = f"one-0000/{task.instance_id}/{index}"
            append_trajectory(folder.iteration("one", 0).trajectories, make_attempt(name, outcome, turns=100))
    before = [parameter.clone() for parameter in run.policy.engine._model.parameters()]
    with raises(TrainingError, match=r"more surprising .* the limit is 10%"):
        await run_stage(STAGE, run.train_tasks, run)
    assert all((a == b).all() for a, b in zip(before, run.policy.engine._model.parameters(), strict=True))


async def test_a_weak_temperature_is_named_after_several_iterations(model, make_run, monkeypatch):
    run = make_run(CONFIG.model_copy(update={"logprob_gap": CHECKED.logprob_gap}))
    monkeypatch.setattr(sampler_check, "count_checked", lambda trajectories: 8_192)
    trainer, warnings = LocalTrainer(model, OptimizerConfig()), []
    for number in range(8):
        trajectories = await asyncio.to_thread(collect, model, SamplingParams(temperature=0.95), number)
        iteration = Iteration(number, STAGE, run)
        iteration.files.metrics.parent.mkdir(parents=True)
        warnings.append(list_warnings(await check_sampler(trainer, trajectories, iteration), CHECKED))
    first = next(number for number, said in enumerate(warnings) if said)
    assert first > 0 and "temperature 0.9" in warnings[first][0]


def test_trajectories_are_drawn_until_they_hold_enough_tokens(model):
    trajectories = collect(model, SamplingParams())
    assert len(draw(trajectories, 3 * NUM_TOKENS, seed=0)) == 3
    assert len(draw(trajectories, 3 * NUM_TOKENS + 1, seed=0)) == 4
    assert draw(trajectories, 3 * NUM_TOKENS, seed=0) != draw(trajectories, 3 * NUM_TOKENS, seed=1)
    assert draw(trajectories, 0, seed=0) == draw([], 100, seed=0) == []
    assert len(draw(trajectories, 10**9, seed=0)) == len(trajectories)


def test_a_small_iteration_checks_a_share_of_its_tokens_and_a_large_one_a_fixed_number():
    def count(num):
        return sampler_check.count_checked([SimpleNamespace(sampled=np.ones(num, bool))])

    assert [count(num) for num in (100, 20_000, 81_920, 10**6)] == [1_024, 2_000, 8_192, 8_192]
