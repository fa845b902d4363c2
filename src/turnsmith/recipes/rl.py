"""One stage of synchronous RL with a modified DAPO (paper §3.2, §4.3).

Collect groups, keep those that carry signal, take optimizer steps, hand the new weights over. Repeat.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from turnsmith.algo.advantages import has_signal
from turnsmith.algo.algorithm import Metrics, choose_algorithm
from turnsmith.algo.packing import make_batches, pack
from turnsmith.config import RunConfig, StageConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.curriculum import draw_tasks
from turnsmith.recipes.evaluate import evaluate_inside
from turnsmith.recipes.metrics import describe, merge_steps, summary, warn_of_contact, was_convicted
from turnsmith.recipes.plateau import has_plateaued
from turnsmith.recipes.sampler_check import check_gap, list_warnings, measure_filter, measure_gap
from turnsmith.recipes.silence import check_silence, warn_of_silence
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.rewards.shaping import permute_rewards
from turnsmith.rollouts.rollout import draw_seed, plan_rollouts
from turnsmith.rollouts.samples import to_groups, to_samples
from turnsmith.runs import drop_old_checkpoints, write_json
from turnsmith.tracking import Progress
from turnsmith.training.base import Trainer
from turnsmith.types import Group, MicroBatch, Sample, Trajectory


async def run_stage(stage: StageConfig, pool: TaskSet, run: RunContext) -> None:
    """All iterations of a stage that are not done yet. Raises TrainingError, NoSignal, InfrastructureStorm."""
    with closing(run.policy.start_training(stage.optimizer)) as trainer:
        await resume(trainer, stage, run)
        check_silence(stage, run)
        for iteration in range(run.folder.next_iteration(stage.name), stage.iterations):
            await evaluate_inside(stage.name, iteration, run)
            if has_plateaued(stage, iteration, run):
                note = f"{stage.name} ends after {iteration} iterations: nothing better in the last {stage.plateau}"
                run.progress.say(note)
                break
            await run_iteration(iteration, stage, pool, trainer, run)
            check_silence(stage, run)


async def run_iteration(iteration: int, stage: StageConfig, pool: TaskSet, trainer: Trainer, run: RunContext) -> None:
    """Collect, learn, hand the new weights over, write down."""
    config, started = run.config, time.monotonic()
    groups = to_groups(await collect(iteration, stage, pool, run), stage)
    if stage.permute_rewards:
        groups = permute_rewards(groups, seed=draw_seed(f"{config.seed}/{stage.name}/{iteration}/permute"))
    collected_s = time.monotonic() - started
    metrics = describe(groups) | await check_sampler(trainer, groups, config, stage, iteration)
    metrics |= await train(trainer, groups, config, stage, iteration, run.progress)
    metrics |= {"time/collect_s": collected_s, "time/train_s": time.monotonic() - started - collected_s}
    await run.policy.take(await trainer.publish())
    await finish_iteration(trainer, metrics, stage, run, iteration)
    run.progress.say(summary(stage, iteration, metrics))
    run.feed.update()
    warn_of_contact(stage, iteration, metrics, run)
    warn_of_silence(stage, iteration, metrics, run)
    for warning in list_warnings(metrics, config.logprob_gap):
        run.progress.say(f"warning: {warning}")


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


async def check_sampler(
    trainer: Trainer, groups: Sequence[Group], config: RunConfig, stage: StageConfig, iteration: int
) -> Metrics:
    """Does the engine sample from the policy, before anything is learned from it?"""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    seed = draw_seed(f"{config.seed}/{stage.name}/{iteration}/sampler")
    return await measure_filter(trainer, trajectories, stage, config.logprob_gap, seed)


async def train(
    trainer: Trainer,
    groups: Sequence[Group],
    config: RunConfig,
    stage: StageConfig,
    iteration: int,
    progress: Progress,
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
    batches = make_batches(
        choose_old_logprobs(samples, stage),
        stage.batch_size,
        unit=stage.batch_unit,
        max_tokens=stage.optimizer.max_tokens_per_micro_batch,
        seed=draw_seed(f"{config.seed}/{stage.name}/{iteration}/batches"),
    )
    steps = await take_steps(trainer, batches, stage, f"{stage.name}: training, iteration {iteration + 1}", progress)
    means = merge_steps(steps, [sum(packed.num_loss_tokens for packed in batch) for batch in batches])
    return counts | means | {"optimizer/steps": float(len(steps)), "logprob_gap/mean": gap}


async def take_steps(
    trainer: Trainer, batches: Sequence[list[MicroBatch]], stage: StageConfig, label: str, progress: Progress
) -> list[Metrics]:
    """One optimizer step for each batch; returns the metrics of each."""
    progress.begin(label, len(batches))
    steps = []
    for batch in batches:
        steps.append(await train_batch(trainer, batch, stage))
        progress.advance(label, note=f"loss {steps[-1]['loss/total']:.3f}")
    progress.end(label)
    return steps


async def train_batch(trainer: Trainer, batch: list[MicroBatch], stage: StageConfig) -> Metrics:
    """One optimizer step."""
    _, make_loss = choose_algorithm(stage)
    return await trainer.step(batch, make_loss([sample for packed in batch for sample in packed.samples]))


async def score(trainer: Trainer, samples: list[Sample], stage: StageConfig) -> list[Sample]:
    """The samples with the trainer's log-probs beside the engine's."""
    old = await trainer.logprobs(pack(samples, stage.optimizer.max_tokens_per_micro_batch))
    return [replace(sample, old_logprobs=old[sample.trajectory_id]) for sample in samples]


def choose_old_logprobs(samples: list[Sample], stage: StageConfig) -> list[Sample]:
    """The ratio is taken to the trainer's log-probs, or where those are left out to the engine's, as the stage says."""
    return [replace(sample, old_logprobs=None) for sample in samples] if stage.old_logprobs == "engine" else samples


async def finish_iteration(
    trainer: Trainer, metrics: Metrics, stage: StageConfig, run: RunContext, iteration: int
) -> None:
    """Checkpoint, then metrics, which say that the iteration is done; then older checkpoints go."""
    await trainer.save(run.folder.checkpoint(stage.name, iteration))
    write_json(run.folder.metrics(stage.name, iteration), metrics)
    drop_old_checkpoints(run.folder, stage.name, run.config.runs.keep_checkpoints)
