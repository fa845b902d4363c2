"""A process goes on where another left the run: with its weights, its counters, its samples, and no others.

Journals are filled beforehand, so that what trains is known; what they lack is played for real by a model that babbles.
"""

import json
from itertools import groupby

import torch
from pytest import fixture, mark, raises
from safetensors.torch import load_file

from support.episodes.silence import Silence
from turnsmith.agent.loop import first_messages
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import EvalConfig, RFTConfig
from turnsmith.errors import UsageError
from turnsmith.recipes import rft
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.curriculum import draw_tasks
from turnsmith.recipes.evaluate import evaluate
from turnsmith.recipes.fine_tuning import make_epochs, make_loss
from turnsmith.recipes.recipe import run_parts
from turnsmith.recipes.rft import keep_resolved, render_samples, run_rft
from turnsmith.recipes.rl import collect, resume, run_stage
from turnsmith.recipes.steps import take_steps
from turnsmith.runs.journal import append_trajectory, read_trajectories
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Outcome, StopReason

from .conftest import CONFIG, OPTIMIZER, RFT, STAGE, make_attempt

YES, NO = Outcome.RESOLVED, Outcome.UNRESOLVED


def model_of(run):
    return run.policy.engine._model


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def are_equal(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def saved(folder, stage, iteration):
    return load_file(folder.iteration(stage, iteration).checkpoint / "model.safetensors")


@fixture
def fill(folder):
    """Put both attempts at every task of an iteration into its journal; the first of each is resolved."""

    def fill(run, stage, iteration):
        tasks = draw_tasks(run.train_tasks, iteration, stage.tasks_per_iteration, CONFIG.seed).tasks
        for task in tasks:
            for index, outcome in enumerate((YES, NO)):
                name = f"{stage.name}-{iteration:04d}/{task.instance_id}/{index}"
                append_trajectory(
                    folder.iteration(stage.name, iteration).trajectories, make_attempt(name, outcome, turns=1 + index)
                )

    return fill


@fixture
def fill_rft(folder):
    """Both attempts at each task; `a` and `b` are resolved once each, `c` never."""

    def fill_rft():
        for task in "abc":
            for index in range(2):
                outcome = YES if task != "c" and index == 0 else NO
                append_trajectory(folder.iteration("rft", 0).trajectories, make_attempt(f"rft/{task}/{index}", outcome))

    return fill_rft


async def test_a_resumed_stage_has_the_weights_and_counters_of_its_last_checkpoint(make_run, fill, folder):
    first = make_run()
    fill(first, STAGE, 0)
    await run_stage(STAGE.model_copy(update={"iterations": 1}), first.train_tasks, first)
    num_steps = json.loads(folder.iteration("one", 0).metrics.read_text())["optimizer/steps"]
    second = make_run()
    base = weights(model_of(second))
    trainer = await second.policy.start_training(STAGE.optimizer)
    await resume(trainer, STAGE, second)
    assert num_steps == 2 == trainer.num_steps == trainer.policy_version == second.policy.engine.policy_version
    assert are_equal(saved(folder, "one", 0), weights(model_of(second)))
    assert not are_equal(base, weights(model_of(second)))
    assert trainer.optimizer.state_dict()["state"]


async def test_a_stage_in_two_processes_ends_with_the_same_weights_as_in_one(make_run, fill, folder):
    first = make_run()
    for iteration in range(2):
        fill(first, STAGE, iteration)
    await run_stage(STAGE.model_copy(update={"iterations": 1}), first.train_tasks, first)
    await run_stage(STAGE, first.train_tasks, second := make_run())
    in_two = weights(model_of(second))
    assert second.policy.engine.policy_version == 4
    for iteration in range(2):
        folder.iteration("one", iteration).metrics.unlink()
    await run_stage(STAGE, first.train_tasks, straight := make_run())
    assert are_equal(in_two, weights(model_of(straight)))


@mark.parametrize("num_kept", [1, 0])
async def test_a_stage_keeps_the_configured_number_of_checkpoints(make_run, fill, folder, num_kept):
    run = make_run(CONFIG.model_copy(update={"keep_checkpoints": num_kept}))
    for iteration in range(2):
        fill(run, STAGE, iteration)
    await run_stage(STAGE, run.train_tasks, run)
    assert [folder.iteration("one", iteration).checkpoint.exists() for iteration in range(2)] == [not num_kept, True]


async def test_an_engine_that_shares_gpus_sleeps_while_the_trainer_computes(make_run, fill, fill_rft, monkeypatch):
    events, run = [], make_run()

    def record(owner, name, event):
        method = getattr(owner, name)

        async def recorded(*arguments):
            events.append(event)
            return await method(*arguments)

        monkeypatch.setattr(owner, name, recorded)

    async def sleep():
        events.append("sleep")

    run.policy.engine.sleep = sleep
    record(run.policy.engine, "load_weights", "wake")
    for name in ("step", "logprobs", "surprisal"):
        record(LocalTrainer, name, "compute")
    fill_rft()
    for iteration in range(2):
        fill(run, STAGE, iteration)
    await run_rft(RFT, run.train_tasks, run)
    await run_stage(STAGE, run.train_tasks, run)
    assert [event for event, _ in groupby(events)] == ["sleep", "compute", "wake"] * 3


async def test_a_resumed_run_loads_finished_rft_and_repeats_nothing(make_run, fill_rft, folder):
    fill_rft()
    first = make_run()
    await run_rft(RFT, first.train_tasks, first)
    metrics = json.loads(folder.iteration("rft", 0).metrics.read_text())
    assert metrics["rollouts/kept"] == 2 and metrics["optimizer/steps"] == metrics["policy/version"] == 1
    assert first.policy.engine.policy_version == 1
    second = make_run()
    base = weights(model_of(second))
    await run_rft(RFT, second.train_tasks, second)
    assert second.policy.engine.policy_version == 1
    assert are_equal(saved(folder, "rft", 0), weights(model_of(second)))
    assert not are_equal(base, weights(model_of(second)))


def test_only_resolved_trajectories_are_imitated():
    attempts = [make_attempt(f"rft/a/{index}", outcome) for index, outcome in enumerate([NO, YES, NO, YES])]
    assert keep_resolved(attempts) == [attempts[1], attempts[3]]
    with raises(UsageError, match="none of 1 rollouts"):
        keep_resolved(attempts[:1])


def test_fine_tuning_keeps_resolved_trajectories_that_a_limit_ended():
    submitted, cut_off = make_attempt("rft/a/0", YES), make_attempt("rft/a/1", YES)
    cut_off = cut_off.grow(stop_reason=StopReason.MAX_TURNS)
    assert keep_resolved([submitted, cut_off]) == [submitted, cut_off]


@mark.parametrize(("unit", "num_steps"), [("trajectories", 3), ("sequences", 1)])
def test_rft_batch_unit_decides_how_batches_are_counted(make_run, unit, num_steps):
    run, rft = make_run(), RFT.model_copy(update={"batch_size": 1, "batch_unit": unit})
    rft = rft.model_copy(update={"optimizer": rft.optimizer.model_copy(update={"max_tokens_per_micro_batch": 100_000})})
    samples = render_samples([make_attempt(f"rft/{t}/0", YES) for t in "abc"], run.train_tasks, run)
    assert len(make_epochs(samples, "rft", rft, seed=0)) == num_steps


def test_rft_trains_with_the_prompt_without_demonstration(make_run):
    run = make_run()
    render, prompts = run.policy.renderer, run.scaffold
    task = run.train_tasks.tasks[0]
    shown, plain = (render.prompt_ids(*first_messages(task, prompts, demonstration)) for demonstration in (True, False))
    assert RFTConfig().demonstration and len(shown) > len(plain)
    attempt = make_attempt("rft/a/0", YES, prompt=len(shown), turns=2, broken=True)
    [sample] = render_samples([attempt], run.train_tasks, run)
    assert sample.token_ids.tolist() == plain + attempt.token_ids[len(shown) :].tolist()
    assert sample.num_loss_tokens == 0


async def test_rft_loss_is_the_mean_over_the_tokens_of_a_batch(make_run):
    run = make_run()
    attempts = [make_attempt(f"rft/a/{index}", YES, turns=1 + index) for index in range(3)]
    samples = render_samples(attempts, run.train_tasks, run)
    still = OPTIMIZER.model_copy(update={"learning_rate": 1e-30, "grad_clip": 1e9})
    trainer = LocalTrainer(model_of(run), still, total_steps=2)
    batches = make_epochs(samples, "rft", RFT, seed=0)
    parameters, gradients = list(trainer.model.parameters()), []
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.append([p.grad.clone() for p in parameters]))
    await take_steps(trainer, batches, make_loss, "training", Silence())
    last = [sample for packed in batches[-1] for sample in packed.samples]
    await trainer.step(pack(last, 10_000), lambda *parts: nll_loss(*parts, batch_denominator(last)))
    assert trainer.num_steps == len(gradients) == 3
    torch.testing.assert_close(gradients[1], gradients[2])


async def test_rollouts_use_the_limits_of_their_part_and_only_rft_shows_the_demonstration(make_run):
    run = make_run()
    pool = run.train_tasks
    prompts = {
        demonstration: [
            run.policy.renderer.prompt_ids(*first_messages(task, run.scaffold, demonstration)) for task in pool.tasks
        ]
        for demonstration in (True, False)
    }
    one = STAGE.model_copy(update={"max_turns": 1, "length_threshold": 1, "tasks_per_iteration": 1})
    played = [await collect(Iteration(iteration, one, run), pool) for iteration in range(2)]
    [played_rft] = [await rft.collect(RFT, pool, run)]
    assert {t.num_turns for each in played for t in each} == {1} and {t.num_turns for t in played_rft} == {2}
    assert all(t.token_ids[: t.prompt_tokens].tolist() in prompts[False] for each in played for t in each)
    assert all(t.token_ids[: t.prompt_tokens].tolist() in prompts[True] for t in played_rft)
    assert len({t.seed for each in [*played, played_rft] for t in each}) == 2 * len(played) + len(played_rft)


async def test_iterations_on_the_same_tasks_have_different_seeds(make_run):
    run = make_run()
    stages = [STAGE.model_copy(update={"name": name, "tasks_per_iteration": 3}) for name in ("one", "two")]
    played = [
        t for stage in stages for it in range(2) for t in await collect(Iteration(it, stage, run), run.train_tasks)
    ]
    assert len({t.seed for t in played}) == len(played) == 24


async def test_a_curriculum_reads_the_whole_previous_stage(make_run, folder):
    """Over both iterations of stage one, `a` and `b` are solved once of four, `c` always."""
    every = STAGE.model_copy(update={"tasks_per_iteration": 3})
    then = every.model_copy(update={"name": "two", "iterations": 1, "curriculum": True})
    run = make_run(CONFIG.model_copy(update={"rft": None, "stages": [every, then]}))
    for iteration in range(2):
        for task in "abc":
            for index in range(2):
                name = f"one-{iteration:04d}/{task}/{index}"
                outcome = YES if task == "c" or (iteration, index) == (0, 0) else NO
                append_trajectory(folder.iteration("one", iteration).trajectories, make_attempt(name, outcome))
    await run_parts(run)
    played = list(read_trajectories(folder.iteration("two", 0).trajectories))
    assert sorted({t.instance_id for t in played}) == ["a", "b"] and len(played) == 4
    assert {t.policy_version for t in played} == {run.policy.engine.policy_version}
    assert run.policy.engine.policy_version > 0


async def test_the_permuted_control_selects_groups_by_permuted_rewards(make_run, folder):
    """One task always solved, two never: no group has signal, until the two verdicts come to lie in two groups."""
    results = []
    for permute in (False, True):
        stage = STAGE.model_copy(
            update={"name": f"{permute}", "iterations": 1, "tasks_per_iteration": 3, "permute_rewards": permute}
        )
        run = make_run(CONFIG.model_copy(update={"seed": 2}))
        for task, verdicts in {"a": (YES, YES), "b": (NO, NO), "c": (NO, NO)}.items():
            for index, outcome in enumerate(verdicts):
                name = f"{stage.name}-0000/{task}/{index}"
                append_trajectory(folder.iteration(stage.name, 0).trajectories, make_attempt(name, outcome))
        await run_stage(stage, run.train_tasks, run)
        results.append(json.loads(folder.iteration(stage.name, 0).metrics.read_text()))
    assert [result["rollouts/resolved_rate"] for result in results] == [2 / 6, 2 / 6]
    assert results[0]["groups/with_signal"] == 0 and results[1]["groups/with_signal"] == 2


async def test_evaluation_seeds_are_equal_across_checkpoints_and_differ_between_runs(make_run, folder):
    def tokens(stage):
        return [t.token_ids.tolist() for t in read_trajectories(folder.eval_trajectories(stage, "train"))]

    for stage, seed in (("base", 0), ("rft", 0), ("other", 1)):
        run = make_run(CONFIG.model_copy(update={"seed": seed, "eval": EvalConfig(num_runs=1, k=1)}))
        await evaluate(stage, run.train_tasks, run)
    assert len(tokens("base")) == 3
    assert sorted(tokens("base")) == sorted(tokens("rft")) != sorted(tokens("other"))
