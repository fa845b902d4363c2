"""Rejection fine-tuning (paper §4.2): collect from the base, keep what the tests resolved, imitate it for one epoch."""

from functools import partial
from itertools import chain

from turnsmith.agent.loop import first_prompt
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.algo.denominators import batch_denominator
from turnsmith.algo.nll import nll_loss
from turnsmith.algo.packing import pack, split_batches
from turnsmith.config import RFTConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.policy import Policy
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.rollouts.inspection import describe_audits
from turnsmith.rollouts.rollout import draw_seed, plan_rollouts
from turnsmith.rollouts.samples import to_rft_sample
from turnsmith.runs import read_json, write_json
from turnsmith.tracking import Progress
from turnsmith.training.base import Trainer
from turnsmith.types import OUTCOMES, Sample, Trajectory

STAGE = "rft"


async def run_rft(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> None:
    """The whole stage; the policy at hand is the better for it. Raises UsageError where nothing was resolved."""
    config, policy, folder = run.config, run.policy, run.folder
    checkpoint, metrics = folder.checkpoint(STAGE, 0), folder.metrics(STAGE, 0)
    if metrics.exists():
        await policy.take(SavedWeights(read_json(metrics)["policy/version"], checkpoint))
        return
    trajectories = await collect(rft, tasks, run)
    kept = keep_resolved(trajectories)
    samples = render_samples(kept, tasks, policy, run.scaffold, rft)
    trainer = policy.start_training(rft.optimizer, total_steps=count_steps(len(samples), rft))
    seeds = [draw_seed(f"{config.seed}/{STAGE}/{epoch}/batches") for epoch in range(rft.epochs)]
    losses = list(chain(*[await train_epoch(trainer, samples, rft, seed, run.progress) for seed in seeds]))
    await policy.take(await trainer.publish())
    await trainer.save(checkpoint)
    trainer.close()
    write_json(metrics, describe(trajectories, kept, losses) | {"policy/version": policy.weights.policy_version})
    run.progress.say(f"RFT: kept {len(kept)} of {len(trajectories)} trajectories, {len(losses)} steps")


async def collect(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> list[Trajectory]:
    """Rollouts of every task from the base, with the demonstration where the configuration says so."""
    rollouts = plan_rollouts(
        tasks.with_layers(),
        prefix=STAGE,
        iteration=0,
        num_each=rft.rollouts_per_task,
        noise=f"{run.config.seed}/{STAGE}",
    )
    return await run.generator.collect(
        rollouts,
        run.agent_for(rft),
        run.folder.trajectories(STAGE, 0),
        label="RFT: collecting",
        demonstration=rft.demonstration,
        inspector=run.open_inspection(),
    )


def keep_resolved(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Rejection: only what the tests resolved. Raises UsageError where that is nothing."""
    kept = [trajectory for trajectory in trajectories if trajectory.resolved]
    if not kept:
        raise UsageError(
            f"the base resolved none of {len(trajectories)} rollouts: give easier tasks or a stronger base"
        )
    return kept


def describe(trajectories: list[Trajectory], kept: list[Trajectory], losses: list[float]) -> dict[str, float]:
    """What the stage did."""
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/kept": len(kept),
        "rollouts/resolved_rate": len(kept) / sum(OUTCOMES[t.outcome].in_group for t in trajectories),
        "loss/nll_first": losses[0],
        "loss/nll_last": losses[-1],
        "optimizer/steps": len(losses),
        **describe_audits(trajectories),
    }


def render_samples(
    kept: list[Trajectory], tasks: TaskSet, policy: Policy, scaffold: Scaffold, rft: RFTConfig
) -> list[Sample]:
    """Kept trajectories behind the prompt without demonstration (paper §3.3)."""
    by_name = {task.instance_id: task for task in tasks.tasks}
    return [
        to_rft_sample(
            trajectory,
            first_prompt(by_name[trajectory.instance_id], policy.renderer, scaffold),
            mask_format_errors=rft.mask_format_errors,
        )
        for trajectory in kept
    ]


def count_steps(num_samples: int, rft: RFTConfig) -> int:
    """Optimizer steps of the stage."""
    return rft.epochs * -(-num_samples // rft.batch_size)


async def train_epoch(
    trainer: Trainer, samples: list[Sample], rft: RFTConfig, seed: int, progress: Progress
) -> list[float]:
    """One pass over the samples; returns the loss of each step."""
    batches = split_batches(samples, rft.batch_size, seed)
    progress.begin("RFT: training", len(batches))
    losses = []
    for batch in batches:
        micro_batches = pack(batch, rft.optimizer.max_tokens_per_micro_batch)
        metrics = await trainer.step(micro_batches, partial(nll_loss, denominator=batch_denominator(batch)))
        losses.append(metrics["loss/nll"])
        progress.advance("RFT: training", note=f"loss {losses[-1]:.3f}")
    progress.end("RFT: training")
    return losses
