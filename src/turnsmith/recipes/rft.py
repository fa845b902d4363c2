"""Rejection fine-tuning (paper §4.2): collect from the base, keep what the tests resolved, imitate it for one epoch."""

from functools import partial
from itertools import chain

from turnsmith.agent.loop import first_prompt
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.algo.denominators import batch_denominator
from turnsmith.algo.nll import nll_loss
from turnsmith.algo.packing import make_batches
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
from turnsmith.types import OUTCOMES, MicroBatch, Sample, StopReason, Trajectory

STAGE = "rft"


async def run_rft(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> None:
    """The whole stage; the policy at hand is the better for it. Raises UsageError where nothing was resolved."""
    config, policy, folder = run.config, run.policy, run.folder
    checkpoint, metrics = folder.checkpoint(STAGE, 0), folder.metrics(STAGE, 0)
    if metrics.exists():
        await policy.take(SavedWeights(read_json(metrics)["policy/version"], checkpoint))
        return
    trajectories = await collect(rft, tasks, run)
    kept = keep_resolved(trajectories, submitted_only=rft.submitted_only)
    samples = render_samples(kept, tasks, policy, run.scaffold, rft)
    batches = list(chain(*(make_epoch(samples, rft, config.seed, epoch) for epoch in range(rft.epochs))))
    trainer = policy.start_training(rft.optimizer, total_steps=len(batches))
    losses = await train(trainer, batches, run.progress)
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


def keep_resolved(trajectories: list[Trajectory], *, submitted_only: bool = False) -> list[Trajectory]:
    """Rejection: only what the tests resolved, and what of it was submitted. Raises UsageError where that is nothing."""
    kept = [t for t in trajectories if t.resolved and (t.stop_reason is StopReason.SUBMITTED or not submitted_only)]
    if not kept:
        what = "submitted a patch that resolves its task in" if submitted_only else "resolved"
        raise UsageError(f"the base {what} none of {len(trajectories)} rollouts: give easier tasks or a stronger base")
    return kept


def describe(trajectories: list[Trajectory], kept: list[Trajectory], losses: list[float]) -> dict[str, float]:
    """What the stage did."""
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/kept": len(kept),
        "rollouts/resolved_rate": sum(t.resolved for t in trajectories)
        / sum(OUTCOMES[t.outcome].in_group for t in trajectories),
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


def make_epoch(samples: list[Sample], rft: RFTConfig, seed: int, epoch: int) -> list[list[MicroBatch]]:
    """The optimizer batches of one pass over the samples."""
    return make_batches(
        samples,
        rft.batch_size,
        unit=rft.batch_unit,
        max_tokens=rft.optimizer.max_tokens_per_micro_batch,
        seed=draw_seed(f"{seed}/{STAGE}/{epoch}/batches"),
    )


async def train(trainer: Trainer, batches: list[list[MicroBatch]], progress: Progress) -> list[float]:
    """A step for each batch; returns the loss of each."""
    progress.begin("RFT: training", len(batches))
    losses = []
    for batch in batches:
        samples = [sample for packed in batch for sample in packed.samples]
        metrics = await trainer.step(batch, partial(nll_loss, denominator=batch_denominator(samples)))
        losses.append(metrics["loss/nll"])
        progress.advance("RFT: training", note=f"loss {losses[-1]:.3f}")
    progress.end("RFT: training")
    return losses
