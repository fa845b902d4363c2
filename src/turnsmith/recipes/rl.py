"""One stage of synchronous RL with a modified DAPO (paper §3.2, §4.3).

Collect groups, keep those that carry signal, take optimizer steps, hand the new weights over. Repeat.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from turnsmith.algo.advantages import has_signal
from turnsmith.algo.algorithm import LossFn, Metrics, choose_algorithm
from turnsmith.algo.packing import make_batches, pack
from turnsmith.config import StageConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.curriculum import draw_tasks
from turnsmith.recipes.endings import check_silence, has_plateaued
from turnsmith.recipes.evaluate import evaluate_inside
from turnsmith.recipes.metrics import describe, merge_steps, report, was_convicted
from turnsmith.recipes.sampler_check import measure_filter, measure_gap
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


async def resume(trainer: Trainer, stage: StageConfig, run: RunContext) -> None:
    """Go on from the last checkpoint of the stage, where there is one."""
    done = run.folder.next_iteration(stage.name)
    if done:
        await trainer.load(run.folder.checkpoint(stage.name, done - 1))
        await run.policy.take(await trainer.publish())


async def run_iteration(iteration: int, stage: StageConfig, pool: TaskSet, trainer: Trainer, run: RunContext) -> None:
    """Collect, learn, hand the new weights over, write down: the metrics last, since they say that it is done."""
    folder, started = run.folder, time.monotonic()
    trajectories = await collect(iteration, stage, pool, run)
    groups = to_groups(trajectories, stage)
    if stage.permute_rewards:
        groups = permute_rewards(groups, seed=name_seed(iteration, stage, run, "permute"))
    collected = time.monotonic()
    # Does the engine sample from the policy? Asked before anything is learned from it.
    seed = name_seed(iteration, stage, run, "sampler")
    metrics = describe(groups) | await measure_filter(trainer, trajectories, stage, run.config.logprob_gap, seed)
    metrics |= await train(trainer, groups, iteration, stage, run)
    metrics |= {"time/collect_s": collected - started, "time/train_s": time.monotonic() - collected}
    await run.policy.take(await trainer.publish())
    await trainer.save(folder.checkpoint(stage.name, iteration))
    write_json(folder.metrics(stage.name, iteration), metrics)
    drop_old_checkpoints(folder, stage.name, run.config.runs.keep_checkpoints)
    report(iteration, stage, metrics, run)


async def collect(iteration: int, stage: StageConfig, pool: TaskSet, run: RunContext) -> list[Trajectory]:
    """G trajectories of each task of the iteration."""
    seed, folder = run.config.seed, run.folder
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
        folder.trajectories(stage.name, iteration),
        label=f"{stage.name}: iteration {iteration + 1} of {stage.iterations}",
        inspector=run.open_inspection(is_alarmed=was_convicted(stage, iteration - 1, folder)),
    )


async def train(
    trainer: Trainer, groups: Sequence[Group], iteration: int, stage: StageConfig, run: RunContext
) -> Metrics:
    """One pass of optimizer steps over the samples that carry signal."""
    advantages, make_loss = choose_algorithm(stage)
    kept = [group for group in groups if has_signal(group, stage.zero_advantage)]
    samples = [sample for group in kept for sample in to_samples(group, advantages(group)) if sample.num_loss_tokens]
    counts: Metrics = {"groups/all": len(groups), "groups/with_signal": len(kept), "samples/trained": len(samples)}
    if not samples:
        return counts | {"optimizer/steps": 0.0}
    samples = await score(trainer, samples, stage)
    gap = measure_gap(samples, run.config.logprob_gap)
    if stage.old_logprobs == "engine":
        samples = [replace(sample, old_logprobs=None) for sample in samples]
    batches = make_batches(
        samples,
        stage.batch_size,
        unit=stage.batch_unit,
        max_tokens=stage.optimizer.max_tokens_per_micro_batch,
        seed=name_seed(iteration, stage, run, "batches"),
    )
    label = f"{stage.name}: training, iteration {iteration + 1}"
    steps = await take_steps(trainer, batches, make_loss, label, run.progress)
    means = merge_steps(steps, [sum(packed.num_loss_tokens for packed in batch) for batch in batches])
    return counts | means | {"optimizer/steps": float(len(steps)), "logprob_gap/mean": gap}


async def score(trainer: Trainer, samples: list[Sample], stage: StageConfig) -> list[Sample]:
    """The samples with the trainer's log-probs beside the engine's."""
    old = await trainer.logprobs(pack(samples, stage.optimizer.max_tokens_per_micro_batch))
    return [replace(sample, old_logprobs=old[sample.trajectory_id]) for sample in samples]


async def take_steps(
    trainer: Trainer,
    batches: Sequence[list[MicroBatch]],
    make_loss: Callable[[list[Sample]], LossFn],
    label: str,
    progress: Progress,
) -> list[Metrics]:
    """One optimizer step for each batch; returns the metrics of each."""
    progress.begin(label, len(batches))
    steps: list[Metrics] = []
    for batch in batches:
        loss_fn = make_loss([sample for packed in batch for sample in packed.samples])
        steps.append(await trainer.step(batch, loss_fn))
        progress.advance(label, note=f"loss {steps[-1]['loss/total']:.3f}")
    progress.end(label)
    return steps


def name_seed(iteration: int, stage: StageConfig, run: RunContext, purpose: str) -> int:
    """The seed of one random choice of an iteration."""
    return draw_seed(f"{run.config.seed}/{stage.name}/{iteration}/{purpose}")
