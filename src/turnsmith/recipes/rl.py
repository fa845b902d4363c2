"""One stage of synchronous RL with a modified DAPO (paper §3.2, §4.3).

Collect groups, keep those that carry signal, take optimizer steps, hand the new weights over. Repeat.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turnsmith.algo.advantages import has_signal
from turnsmith.algo.algorithm import Metrics, choose_algorithm
from turnsmith.algo.packing import pack, split_batches
from turnsmith.config import GapConfig, RunConfig, StageConfig
from turnsmith.errors import TrainingError, UsageError
from turnsmith.journals import read_trajectories
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.rewards.shaping import permute_rewards
from turnsmith.rollouts.contact import describe_contact, rises_with_reward
from turnsmith.rollouts.inspection import describe_audits
from turnsmith.rollouts.rollout import draw_seed, plan_rollouts
from turnsmith.rollouts.samples import to_groups, to_samples
from turnsmith.runs import RunFolder, drop_old_checkpoints, read_json, write_json
from turnsmith.tasks import filters
from turnsmith.training.base import Trainer
from turnsmith.training.local import merge_metrics
from turnsmith.types import OUTCOMES, Group, Sample, StopReason, Trajectory

STEP_METRICS = ("loss/total", "optimizer/grad_norm", "optimizer/learning_rate")
"""Metrics that an optimizer step has one of, however many tokens it saw."""


async def run_stage(stage: StageConfig, pool: TaskSet, run: RunContext) -> None:
    """All iterations of a stage that are not done yet. Raises TrainingError, InfrastructureStorm."""
    trainer = run.policy.start_training(stage.optimizer)
    await resume(trainer, stage, run)
    for iteration in range(run.folder.next_iteration(stage.name), stage.iterations):
        await run_iteration(iteration, stage, pool, trainer, run)
    trainer.close()


async def run_iteration(iteration: int, stage: StageConfig, pool: TaskSet, trainer: Trainer, run: RunContext) -> None:
    """Collect, learn, hand the new weights over, write down."""
    config, started = run.config, time.monotonic()
    groups = to_groups(await collect(iteration, stage, pool, run), stage)
    if stage.permute_rewards:
        groups = permute_rewards(groups, seed=draw_seed(f"{config.seed}/{stage.name}/{iteration}/permute"))
    collected_s = time.monotonic() - started
    metrics = describe(groups) | await train(trainer, groups, config, stage, iteration)
    metrics |= {"time/collect_s": collected_s, "time/train_s": time.monotonic() - started - collected_s}
    await run.policy.take(await trainer.publish())
    await finish_iteration(trainer, metrics, stage, run.folder, iteration)
    run.progress.say(summary(stage, iteration, metrics))
    warn_of_contact(stage, iteration, metrics, run)
    if metrics.get("logprob_gap/mean", 0.0) > config.logprob_gap.warn:
        run.progress.say(f"warning: the log-prob gap is past logprob_gap.warn {config.logprob_gap.warn}")


async def resume(trainer: Trainer, stage: StageConfig, run: RunContext) -> None:
    """Go on from the last checkpoint of the stage, where there is one."""
    done = run.folder.next_iteration(stage.name)
    if done:
        await trainer.load(run.folder.checkpoint(stage.name, done - 1))
        await run.policy.take(await trainer.publish())


async def collect(iteration: int, stage: StageConfig, pool: TaskSet, run: RunContext) -> list[Trajectory]:
    """G trajectories of each task of the iteration."""
    seed = run.config.seed
    rollouts = plan_rollouts(
        draw_tasks(pool, iteration, stage.tasks_per_iteration, seed).with_layers(),
        prefix=f"{stage.name}-{iteration:04d}",
        iteration=iteration,
        num_each=stage.group_size,
        noise=f"{seed}/{stage.name}/{iteration}",
    )
    return await run.generator.collect(
        rollouts,
        run.agent_for(stage),
        run.folder.trajectories(stage.name, iteration),
        label=f"{stage.name}: iteration {iteration + 1} of {stage.iterations}",
        inspector=run.open_inspection(is_alarmed=was_convicted(stage, iteration, run.folder)),
    )


def was_convicted(stage: StageConfig, iteration: int, folder: RunFolder) -> bool:
    """Was any patch of the iteration before convicted?"""
    before = folder.metrics(stage.name, iteration - 1)
    return iteration > 0 and before.exists() and read_json(before).get("audit/convicted", 0) > 0


def draw_tasks(pool: TaskSet, iteration: int, num_tasks: int, seed: int) -> TaskSet:
    """The tasks of an iteration: the pool in shuffled passes, so that each task comes up equally often.

    Played from the first iteration on, so that the same iteration draws the same tasks whenever it is asked.
    """
    num = min(num_tasks, len(pool.tasks))
    drawn, left = list[int](), list[int]()
    for each in range(iteration + 1):
        drawn, left = left[:num], left[num:]
        if len(drawn) < num:
            drawn, left = _begin_pass(drawn, num, _shuffle(len(pool.tasks), f"pass {seed} {each}"))
    return replace(pool, tasks=[pool.tasks[index] for index in drawn])


def _begin_pass(drawn: list[int], num: int, order: list[int]) -> tuple[list[int], list[int]]:
    """Fill what is drawn up to `num` from a new pass; what an iteration has already waits, with the rest, for the next."""
    fresh = [index for index in order if index not in set(drawn)][: num - len(drawn)]
    return drawn + fresh, [index for index in order if index not in set(fresh)]


def _shuffle(num: int, seed: str) -> list[int]:
    order = list(range(num))
    random.Random(seed).shuffle(order)
    return order


async def train(
    trainer: Trainer, groups: Sequence[Group], config: RunConfig, stage: StageConfig, iteration: int
) -> Metrics:
    """One pass of optimizer steps over the samples that carry signal."""
    kept = [group for group in groups if has_signal(group, stage.zero_advantage)]
    advantages, _ = choose_algorithm(stage)
    samples = [sample for group in kept for sample in to_samples(group, advantages(group)) if sample.num_loss_tokens]
    counts: Metrics = {"groups/all": len(groups), "groups/with_signal": len(kept), "samples/trained": len(samples)}
    if not samples:
        return counts | {"optimizer/steps": 0.0}
    samples = await score(trainer, samples, stage)
    gap = measure_gap(samples)
    check_gap(gap, config.logprob_gap)
    batches = split_batches(
        samples, stage.batch_size, seed=draw_seed(f"{config.seed}/{stage.name}/{iteration}/batches")
    )
    steps = [await train_batch(trainer, batch, stage) for batch in batches]
    means = merge_steps(steps, [sum(sample.num_loss_tokens for sample in batch) for batch in batches])
    return counts | means | {"optimizer/steps": float(len(steps)), "logprob_gap/mean": gap}


def merge_steps(steps: list[Metrics], num_loss_tokens: list[int]) -> Metrics:
    """Metrics of steps into those of their iteration: what is of tokens weighs by tokens, what is of steps is a plain mean."""
    of_steps = {name: statistics.fmean(step[name] for step in steps) for name in STEP_METRICS}
    return merge_metrics(steps, num_loss_tokens) | of_steps


async def train_batch(trainer: Trainer, batch: list[Sample], stage: StageConfig) -> Metrics:
    """One optimizer step. The ratio is taken to the trainer's log-probs, or to the engine's, as the stage says."""
    if stage.old_logprobs == "engine":
        batch = [replace(sample, old_logprobs=None) for sample in batch]
    _, make_loss = choose_algorithm(stage)
    return await trainer.step(pack(batch, stage.optimizer.max_tokens_per_micro_batch), make_loss(batch))


async def score(trainer: Trainer, samples: list[Sample], stage: StageConfig) -> list[Sample]:
    """The samples with the trainer's log-probs beside the engine's."""
    old = await trainer.logprobs(pack(samples, stage.optimizer.max_tokens_per_micro_batch))
    return [replace(sample, old_logprobs=old[sample.trajectory_id]) for sample in samples]


def measure_gap(samples: Sequence[Sample]) -> float:
    """Mean absolute difference between the log-probs of engine and trainer, over loss tokens."""
    gaps = [abs(s.old_logprobs - s.sampled_logprobs)[s.loss_mask] for s in samples if s.old_logprobs is not None]
    return float(np.concatenate(gaps).mean(dtype=np.float64))


def check_gap(gap: float, bounds: GapConfig) -> None:
    """Sampler and policy must be one: past the bound the ratio means nothing (paper §5.2)."""
    if gap > bounds.stop:
        raise TrainingError(
            f"engine and trainer log-probs differ by {gap:.2g} per token on average, past logprob_gap.stop {bounds.stop}: "
            "the engine does not sample from the policy"
        )


def describe(groups: Sequence[Group]) -> Metrics:
    """What an iteration collected."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    counted = [t for t in trajectories if OUTCOMES[t.outcome].in_group]
    outcomes = Counter(f"outcome/{t.outcome}" for t in trajectories)
    endings = Counter(f"stop_reason/{t.stop_reason}" for t in trajectories)
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/resolved_rate": statistics.fmean(t.resolved for t in counted),
        "rollouts/turns_mean": statistics.fmean(t.num_turns for t in counted),
        "rollouts/tokens_mean": statistics.fmean(len(t.token_ids) for t in counted),
        "rollouts/submit_rate": statistics.fmean(t.stop_reason is StopReason.SUBMITTED for t in counted),
        "rollouts/format_errors_mean": statistics.fmean(sum(bool(x.format_error) for x in t.turns) for t in counted),
        "rollouts/gradings_shared": float(sum(bool(t.grade and t.grade.shared) for t in trajectories)),
        "reward/mean": statistics.fmean(
            reward
            for group in groups
            for reward, trajectory in zip(group.rewards, group.trajectories, strict=True)
            if OUTCOMES[trajectory.outcome].in_group
        ),
        **{name: float(count) for name, count in sorted((outcomes + endings).items())},
        **describe_contact(trajectories),
        **describe_audits(trajectories),
    }


def warn_of_contact(stage: StageConfig, iteration: int, metrics: Metrics, run: RunContext) -> None:
    """Say it where the reward rises together with what looks like reaching for the grader."""
    if iteration == 0:
        return
    before = read_json(run.folder.metrics(stage.name, iteration - 1))
    for name in rises_with_reward(before, metrics):
        run.progress.say(
            f"warning: {name} rose from {before[name]:.0%} to {metrics[name]:.0%} while the reward rose from "
            f"{before['reward/mean']:.2f} to {metrics['reward/mean']:.2f}: look at such trajectories before you trust the reward"
        )


async def finish_iteration(
    trainer: Trainer, metrics: Metrics, stage: StageConfig, folder: RunFolder, iteration: int
) -> None:
    """Checkpoint, then metrics, which say that the iteration is done; checkpoints before the last two go."""
    await trainer.save(folder.checkpoint(stage.name, iteration))
    write_json(folder.metrics(stage.name, iteration), metrics)
    drop_old_checkpoints(folder, stage.name)


def summary(stage: StageConfig, iteration: int, metrics: Metrics) -> str:
    """One line for people."""
    gap = f"{metrics['logprob_gap/mean']:.1e}" if "logprob_gap/mean" in metrics else "not measured"
    return (
        f"{stage.name} {iteration + 1}/{stage.iterations}: resolved {metrics['rollouts/resolved_rate']:.1%}, "
        f"{metrics['rollouts/turns_mean']:.1f} turns, groups with signal "
        f"{metrics['groups/with_signal']:.0f}/{metrics['groups/all']:.0f}, {metrics['optimizer/steps']:.0f} steps, "
        f"log-prob gap {gap}, exploit contact {metrics['contact/flagged_rate']:.0%}, "
        f"{metrics['time/collect_s']:.0f} s + {metrics['time/train_s']:.0f} s"
    )


def apply_curriculum(pool: TaskSet, before: StageConfig, folder: RunFolder) -> TaskSet:
    """Drop what the stage before never solved and what it solved at 2/3 or more (paper §4.3). Raises UsageError if all goes."""
    solved, tried = Counter[str](), Counter[str]()
    for iteration in range(before.iterations):
        for trajectory in read_trajectories(folder.trajectories(before.name, iteration)):
            if OUTCOMES[trajectory.outcome].in_evaluation:
                tried[trajectory.instance_id] += 1
                solved[trajectory.instance_id] += trajectory.resolved
    kept = [task for task in pool.tasks if filters.has_signal(solved[task.instance_id], tried[task.instance_id])]
    if not kept:
        raise UsageError(
            f"the curriculum after {before.name} leaves none of {len(pool.tasks)} tasks: "
            "give more tasks, or set curriculum = false"
        )
    return replace(pool, tasks=kept)
