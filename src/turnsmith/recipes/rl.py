"""One stage of synchronous RL with a modified DAPO (paper §3.2, §4.3).

Each iteration collects groups, and takes optimizer steps on those with signal, i.e. with unequal results. It sends the new
weights to the engine.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from turnsmith.algo.advantages import has_signal
from turnsmith.algo.algorithm import Metrics, choose_algorithm
from turnsmith.algo.corrections import correct, describe_weights
from turnsmith.algo.packing import pack
from turnsmith.algo.shaping import permute_rewards
from turnsmith.audit.ability import describe_abilities
from turnsmith.config import StageConfig
from turnsmith.io.files import write_file
from turnsmith.recipes.context import Iteration, RunContext
from turnsmith.recipes.curriculum import draw_tasks
from turnsmith.recipes.evaluate import evaluate_inside
from turnsmith.recipes.metrics import describe, find_standing, merge_steps, report
from turnsmith.recipes.sampler_check import check_sampler, count_checked, draw, measure_gap
from turnsmith.recipes.steps import batch_samples, take_steps
from turnsmith.recipes.stopping import check_silence, has_plateaued
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.rollouts.samples import refuse_unproven, to_groups, to_samples
from turnsmith.runs.folder import drop_old_checkpoints, read_json, write_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.task_set import TaskSet
from turnsmith.training.base import Trainer
from turnsmith.types import Group, Sample, Trajectory


async def run_stage(stage: StageConfig, pool: TaskSet, run: RunContext) -> None:
    """Run the unfinished iterations of a stage. Raises TrainingError, NoSignal, TooManyFailures."""
    with closing(await run.token_policy.start_training(stage.optimizer)) as trainer:
        await resume(trainer, stage, run)
        check_silence(stage, run)
        for number in range(run.folder.next_iteration(stage.name), stage.iterations):
            await evaluate_inside(stage.name, number, run)
            if has_plateaued(stage, number, run):
                run.progress.log(
                    f"{stage.name} ends after {number} iterations: none of the last {stage.plateau} success rates is a new best"
                )
                break
            await run_iteration(Iteration(number, stage, run), pool, trainer)
            check_silence(stage, run)


async def resume(trainer: Trainer, stage: StageConfig, run: RunContext) -> None:
    """Load the last checkpoint of the stage, if there is one."""
    done = run.folder.next_iteration(stage.name)
    if done:
        run.progress.log(f"{stage.name}: {done} of {stage.iterations} iterations are done; loading the last checkpoint")
        checkpoint = run.folder.iteration(stage.name, done - 1).checkpoint
        await trainer.load(checkpoint)
        await run.token_policy.take(await trainer.publish(), checkpoint)
        last = Iteration(done - 1, stage, run)
        run.progress.show_standing(find_standing(last, read_json(last.files.metrics)))


async def run_iteration(iteration: Iteration, pool: TaskSet, trainer: Trainer) -> None:
    """Run one iteration. The metrics file is written last and marks the iteration as finished."""
    stage, run, started = iteration.stage, iteration.run, time.monotonic()
    num_before = run.generator.num_sampled
    trajectories = await collect(iteration, pool)
    groups = form_groups(trajectories, iteration)
    collected = time.monotonic()
    await run.token_policy.rest()
    # The sampler is checked before training changes the weights.
    sampler = await check_sampler(trainer, trajectories, iteration)
    metrics = describe(groups) | describe_abilities(run.train_tasks.list_abilities())
    metrics |= sampler | await learn(trainer, groups, iteration)
    if num_sampled := run.generator.num_sampled - num_before:
        metrics["tokens/sampled_per_s"] = num_sampled / (collected - started)
    metrics |= {"time/collect_s": collected - started, "time/train_s": time.monotonic() - collected}
    await trainer.save(iteration.files.checkpoint)
    await run.token_policy.take(await trainer.publish(), iteration.files.checkpoint)
    write_json(iteration.files.metrics, metrics)
    drop_old_checkpoints(run.folder, stage.name, run.config.keep_checkpoints)
    report(iteration, metrics)


async def collect(iteration: Iteration, pool: TaskSet) -> list[Trajectory]:
    """Collect `group_size` trajectories of each task. Raises UsageError if one lacks the engine's digest of its tokens."""
    number, stage, run, journal = iteration.number, iteration.stage, iteration.run, iteration.files.trajectories
    refuse_unproven(read_trajectories(journal), journal)
    rollouts = plan_rollouts(
        draw_tasks(pool, number, stage.tasks_per_iteration, run.config.seed).list_trees(),
        prefix=f"{stage.name}-{number:04d}",
        iteration=number,
        num_each=stage.group_size,
        seed_stream=iteration.seed_stream,
    )
    trajectories = await run.generator.collect(
        rollouts,
        run.agent_for(stage),
        journal,
        label=f"{stage.name}: iteration {number + 1} of {stage.iterations}",
        inspector=run.open_inspection(is_alarmed=iteration.read_previous().get("audit/failed", 0) > 0),
    )
    refuse_unproven(trajectories, journal)
    return trajectories


def form_groups(trajectories: Sequence[Trajectory], iteration: Iteration) -> list[Group]:
    """Form groups of trajectories with rewards. With `permute_rewards`, a control experiment, rewards are permuted at random."""
    groups = to_groups(trajectories, iteration.stage)
    return permute_rewards(groups, seed=iteration.seed("permute")) if iteration.stage.permute_rewards else groups


async def learn(trainer: Trainer, groups: Sequence[Group], iteration: Iteration) -> Metrics:
    """Take one pass of optimizer steps over the groups with unequal results; return the metrics."""
    stage, run = iteration.stage, iteration.run
    advantages, make_loss = choose_algorithm(stage)
    kept = [group for group in groups if has_signal(group, stage.zero_advantage)]
    samples = [sample for group in kept for sample in to_samples(group, advantages(group)) if sample.num_loss_tokens]
    record_rewards(groups, samples, iteration)
    counts: Metrics = {"groups/all": len(groups), "groups/with_signal": len(kept), "samples/trained": len(samples)}
    if not samples:
        return counts | {"optimizer/steps": 0.0}
    share = run.config.trainer.share_prefixes
    scored = await add_old_logprobs(trainer, choose_scored(samples, kept, iteration), stage, share_prefixes=share)
    record_logprobs(scored, iteration.files.trainer_logprobs)
    gap = measure_gap(scored, run.config.logprob_gap)
    samples = scored if stage.old_logprobs == "trainer" else samples
    if stage.is_cap:
        counts |= describe_weights(samples, stage.is_cap)
        samples = [correct(sample, stage.is_cap) for sample in samples]
    batches = batch_samples(samples, stage, iteration.seed("batches"), share_prefixes=share)
    label = f"{stage.name}: training, iteration {iteration.number + 1}"
    steps = await take_steps(trainer, batches, make_loss, label, run.progress)
    means = merge_steps(steps, [sum(packed.num_loss_tokens for packed in batch) for batch in batches])
    return counts | means | {"optimizer/steps": float(len(steps)), "logprob_gap/mean": gap}


def record_rewards(groups: Sequence[Group], samples: Sequence[Sample], iteration: Iteration) -> None:
    """Write the reward of each trajectory, and its advantage if it is used for training, for the pages of `turnsmith view`."""
    advantages = {sample.trajectory_id: float(sample.advantages[0]) for sample in samples}
    rewards = {
        trajectory.trajectory_id: {"reward": reward, "advantage": advantages.get(trajectory.trajectory_id)}
        for group in groups
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
    }
    write_json(iteration.files.rewards, rewards)


def record_logprobs(samples: Sequence[Sample], file: Path) -> None:
    """Write the trainer's log-probs of the samples' tokens, for the pages of `turnsmith view`."""
    write_file(file, save({sample.trajectory_id: np.asarray(sample.old_logprobs, np.float32) for sample in samples}))


def choose_scored(samples: list[Sample], groups: Sequence[Group], iteration: Iteration) -> list[Sample]:
    """Choose the samples for whose tokens the trainer computes log-probs: all, or a random part if π_old is the engine's."""
    if iteration.stage.old_logprobs == "trainer":
        return samples
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    drawn = {each.trajectory_id for each in draw(trajectories, count_checked(trajectories), iteration.seed("sampler"))}
    return [sample for sample in samples if sample.trajectory_id in drawn] or samples


async def add_old_logprobs(
    trainer: Trainer, samples: list[Sample], stage: StageConfig, *, share_prefixes: bool = False
) -> list[Sample]:
    """Add `old_logprobs` to the samples: the trainer's log-probs before the first optimizer step of the iteration."""
    max_tokens = stage.optimizer.max_tokens_per_micro_batch
    old = await trainer.logprobs(pack(samples, max_tokens, share_prefixes=share_prefixes))
    return [replace(sample, old_logprobs=old[sample.trajectory_id]) for sample in samples]
