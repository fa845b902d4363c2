"""Training in one iteration, with a small model and prepared trajectories of known log-probs."""

import math
from dataclasses import replace

import numpy as np
from pytest import approx, fixture, mark, raises
from safetensors.numpy import load_file

from support.episodes.digests import with_digests
from support.episodes.silence import Silence
from support.models.small_models import make_model
from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.names import ALGORITHMS
from turnsmith.algo.packing import pack
from turnsmith.config import GapConfig
from turnsmith.errors import TrainingError
from turnsmith.recipes import rl
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.metrics import STEP_METRICS, merge_steps
from turnsmith.recipes.rl import add_old_logprobs, learn
from turnsmith.recipes.sampler_check import measure_gap
from turnsmith.recipes.steps import take_steps
from turnsmith.rollouts.samples import to_groups, to_sample
from turnsmith.runs.folder import read_json
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Outcome

from .conftest import CONFIG, OPTIMIZER, STAGE, bare_run, make_attempt

YES, NO = Outcome.RESOLVED, Outcome.UNRESOLVED
pytestmark = mark.usefixtures("working_directory")


@fixture
def trainer():
    return LocalTrainer(make_model(), OPTIMIZER)


@fixture
def sampled(trainer):
    """Return trajectories with the trainer's log-probs, shifted by these amounts in turn."""

    async def move(attempts, *amounts):
        told = await trainer.logprobs(pack([to_sample(attempt, 1.0) for attempt in attempts], 256))
        return [with_digests(attempt.grow(logprobs=shift(attempt, told, amounts))) for attempt in attempts]

    return move


def shift(attempt, told, amounts):
    moved = told[attempt.trajectory_id] + np.resize(np.float32(amounts), len(attempt.sampled))
    return np.where(attempt.sampled, moved, np.float32(0))


def attempts(*turns, task="a", stage="one"):
    """Return siblings of which the first is resolved, with these numbers of turns."""
    return [make_attempt(f"{stage}/{task}/{index}", NO if index else YES, turns=num) for index, num in enumerate(turns)]


async def take_step(trainer, batch, stage=STAGE):
    """Make one optimizer step. Return its metrics."""
    _, make_loss = choose_algorithm(stage)
    [metrics] = await take_steps(trainer, [pack(batch, 256)], make_loss, "training", Silence())
    return metrics


async def test_the_gap_is_the_mean_of_absolute_differences_over_sampled_tokens(trainer, sampled):
    samples = [to_sample(attempt, 1.0) for attempt in await sampled(attempts(2, 2), 0.01, -0.01)]
    assert measure_gap(await add_old_logprobs(trainer, samples, STAGE), GapConfig(stop=1.0)) == approx(0.01, rel=1e-3)


async def test_an_iteration_records_rewards_advantages_and_the_trainers_logprobs(trainer, sampled):
    even, uneven = attempts(2, 2, task="even")[:1] * 2, attempts(2, 2)
    even[1] = even[0].grow(trajectory_id="one/even/1", index=1)
    moved = await sampled([*even, *uneven], 0.1)
    iteration = Iteration(0, STAGE, bare_run())
    await learn(trainer, to_groups(moved, STAGE), iteration)
    rewards, told = read_json(iteration.files.rewards), load_file(iteration.files.trainer_logprobs)
    assert [rewards[each.trajectory_id]["reward"] for each in moved] == [0.0, 0.0, 0.0, -1.0]
    signs = [rewards[each.trajectory_id]["advantage"] for each in moved]
    assert signs == [None, None, approx(1.0, rel=1e-4), approx(-1.0, rel=1e-4)]
    assert set(told) == {each.trajectory_id for each in moved[2:]}
    for each in moved[2:]:
        gap = each.logprobs[each.sampled] - told[each.trajectory_id][each.sampled]
        assert gap == approx(0.1, rel=1e-3)


@mark.parametrize(("whose", "ratio"), [("trainer", 1.0), ("engine", math.exp(-0.1))])
async def test_old_logprobs_selects_trainer_or_engine(trainer, sampled, whose, ratio):
    moved = await sampled(attempts(2, 2), 0.1)
    samples = [to_sample(attempt, 1.0) for attempt in moved]
    scored = await add_old_logprobs(trainer, samples, STAGE)
    stage = STAGE.model_copy(update={"old_logprobs": whose})
    metrics = await learn(trainer, to_groups(moved, stage), Iteration(0, stage, bare_run()))
    assert metrics["loss/ratio_mean"] == approx(ratio, rel=1e-4)
    assert all((a.sampled_logprobs == b.sampled_logprobs).all() for a, b in zip(samples, scored, strict=True))


async def test_the_trainer_scores_a_random_part_if_the_engines_logprobs_are_used(sampled, monkeypatch):
    moved = await sampled(attempts(2, 2, 2, 2), 0.1)
    samples, groups = [to_sample(attempt, 1.0) for attempt in moved], to_groups(moved, STAGE)
    engines = STAGE.model_copy(update={"old_logprobs": "engine"})
    monkeypatch.setattr(rl, "count_checked", lambda trajectories: samples[0].num_loss_tokens + 1)
    parts = [rl.choose_scored(samples, groups, Iteration(number, engines, bare_run())) for number in range(8)]
    assert {len(part) for part in parts} == {2}
    assert len({part[0].trajectory_id for part in parts}) > 1
    assert rl.choose_scored(samples, groups, Iteration(0, STAGE, bare_run())) == samples


async def test_training_reports_the_gap_and_stops_above_the_bound(trainer, sampled):
    groups = to_groups(await sampled(attempts(2, 2), 0.5), STAGE)
    bounded = CONFIG.model_copy(update={"logprob_gap": GapConfig(stop=0.4)})
    before = [parameter.clone() for parameter in trainer.model.parameters()]
    with raises(TrainingError, match=r"0\.5 per token"):
        await learn(trainer, groups, Iteration(0, STAGE, bare_run(bounded)))
    assert all((a == b).all() for a, b in zip(before, trainer.model.parameters(), strict=True))
    assert (await learn(trainer, groups, Iteration(0, STAGE, bare_run())))["logprob_gap/mean"] == approx(0.5, rel=1e-3)


async def test_is_cap_corrects_the_rest_between_engine_and_trainer(sampled):
    groups = to_groups(await sampled(attempts(2, 2), -0.5), STAGE)
    told = [
        await learn(LocalTrainer(make_model(), OPTIMIZER), groups, Iteration(0, stage, bare_run()))
        for stage in (STAGE.model_copy(update={"is_cap": cap}) for cap in (2.0, 1.25, None))
    ]
    assert (told[0]["is/weight_mean"], told[0]["is/capped_share"]) == (approx(math.exp(0.5), rel=1e-3), 0.0)
    assert (told[1]["is/weight_mean"], told[1]["is/capped_share"]) == (1.25, 1.0)
    assert "is/weight_mean" not in told[2]


async def test_the_clip_is_narrow_below_and_wide_above(trainer, sampled):
    """With ratios 1.25 and 0.75 and clips of 0.2 below and 0.3 above, only the lower one is clipped."""
    rising, sinking = attempts(1), attempts(1, task="b")
    batch = [
        to_sample((await sampled(rising, -math.log(1.25)))[0], 1.0),
        to_sample((await sampled(sinking, -math.log(0.75)))[0], -1.0),
    ]
    metrics = await take_step(trainer, batch)
    assert (metrics["loss/clip_frac_low"], metrics["loss/clip_frac_high"]) == (0.5, 0.0)


@mark.parametrize(("denominator", "expected"), [("batch", -5 / 9), ("group", -(2 / 3 + 1 / 2) / 2)])
async def test_the_denominator_weighs_tokens_or_groups_equally(trainer, sampled, denominator, expected):
    """Group a: 3 tokens with advantage 2/3. Group b: 6 tokens, 3 with advantage 1 and 3 with 0. All ratios are 1."""
    batch = [
        to_sample(attempt, advantage)
        for attempt, advantage in zip(
            await sampled(attempts(1) + attempts(1, 1, task="b"), 0.0), (2 / 3, 1.0, 0.0), strict=True
        )
    ]
    metrics = await take_step(trainer, batch, STAGE.model_copy(update={"denominator": denominator}))
    assert metrics["loss/total"] == approx(expected, rel=1e-4)


@mark.parametrize("algorithm", sorted(ALGORITHMS.paths))
async def test_every_algorithm_makes_the_resolved_trajectory_likelier(trainer, sampled, algorithm):
    # Names of different length make different tokens.
    pair = await sampled([make_attempt("one/a/0", YES, turns=2), make_attempt("one/a/10", NO, turns=2)], 0.0)
    stage = STAGE.model_copy(update={"algorithm": algorithm, "max_context": 64})
    metrics = await learn(trainer, to_groups(pair, stage), Iteration(0, stage, bare_run()))
    told = await trainer.logprobs(pack([to_sample(attempt, 1.0) for attempt in pair], 256))
    rises = [float((told[attempt.trajectory_id] - attempt.logprobs).sum()) for attempt in pair]
    assert metrics["optimizer/steps"] == 1 and rises[0] > rises[1]


@mark.parametrize(("rule", "num_kept"), [("final", 2), ("resolved", 1)])
async def test_only_groups_with_signal_train(trainer, sampled, rule, num_kept):
    """The groups differ in verdicts, in lengths only, and in nothing."""
    lengths = [make_attempt("one/b/0", NO, turns=1), make_attempt("one/b/1", NO, turns=2)]
    nothing = [make_attempt("one/c/0", NO), make_attempt("one/c/1", NO)]
    groups = to_groups(await sampled(attempts(1, 1) + lengths + nothing, 0.0), STAGE)
    metrics = await learn(trainer, groups, Iteration(0, STAGE.model_copy(update={"zero_advantage": rule}), bare_run()))
    assert (metrics["groups/all"], metrics["groups/with_signal"]) == (3, num_kept)
    assert metrics["samples/trained"] == 2 * num_kept and metrics["optimizer/steps"] == num_kept


def test_step_metrics_are_averaged_by_tokens_or_by_steps():
    of_step = dict.fromkeys(STEP_METRICS, 1.0)
    steps = [
        of_step | {"loss/entropy": 1.0, "loss/ratio_max": 3.0},
        of_step | {"loss/entropy": 5.0, "loss/ratio_max": 2.0},
    ]
    steps[1]["loss/total"] = 2.0
    merged = merge_steps(steps, [30, 10])
    assert (merged["loss/entropy"], merged["loss/ratio_max"], merged["loss/total"]) == (2.0, 3.0, 1.5)


async def test_the_order_of_samples_differs_between_neighbouring_seeds_iterations_and_stages(sampled):
    """With `seed + iteration`, the second iteration of seed 0 and the first of seed 1 would have the same order."""

    async def weights_after(seed, iteration, name):
        trainer = LocalTrainer(make_model(), OPTIMIZER)
        stage = STAGE.model_copy(update={"batch_size": 1, "name": name})
        run = bare_run(CONFIG.model_copy(update={"seed": seed}))
        await learn(trainer, to_groups(told, STAGE), Iteration(iteration, stage, run))
        return sum(parameter.double().sum().item() for parameter in trainer.model.parameters())

    told = await sampled([attempt for task in "abcd" for attempt in attempts(1, 2, task=task)], 0.0)
    places = [(0, 1, "one"), (1, 0, "one"), (0, 1, "two"), (1, 0, "two")]
    assert len({await weights_after(*place) for place in places}) == 4
    assert await weights_after(*places[0]) == await weights_after(*places[0])


@mark.parametrize(("unit", "num_steps"), [("trajectories", 4), ("sequences", 1)])
async def test_batch_unit_decides_how_batches_are_counted(trainer, sampled, unit, num_steps):
    groups = to_groups(await sampled(attempts(1, 1) + attempts(1, 1, task="b"), 0.0), STAGE)
    stage = STAGE.model_copy(update={"batch_size": 1, "batch_unit": unit})
    assert (await learn(trainer, groups, Iteration(0, stage, bare_run())))["optimizer/steps"] == num_steps


async def test_an_iteration_without_signal_takes_no_step(trainer):
    groups = to_groups([make_attempt("one/c/0", NO), make_attempt("one/c/1", NO)], STAGE)
    assert (await learn(trainer, groups, Iteration(0, STAGE, bare_run())))["optimizer/steps"] == trainer.num_steps == 0


async def test_a_trajectory_without_sampled_tokens_counts_in_its_group_only(trainer, sampled):
    """With two groups, a batch or a micro-batch could consist of such trajectories only."""
    silent = [make_attempt(f"one/{task}/1", NO, turns=0) for task in "ab"]
    spoken = await sampled([make_attempt(f"one/{task}/0", YES) for task in "ab"], 0.0)
    groups = to_groups([spoken[0], silent[0], spoken[1], silent[1]], STAGE)
    metrics = await learn(trainer, groups, Iteration(0, STAGE.model_copy(update={"batch_size": 1}), bare_run()))
    assert metrics["samples/trained"] == metrics["optimizer/steps"] == 2
    muted = [replace(to_sample(t, 1.0), loss_mask=[False] * len(t.sampled)) for t in spoken]
    assert set(await trainer.logprobs(pack(muted, 8))) == {"one/a/0", "one/b/0"}
