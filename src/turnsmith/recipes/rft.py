"""Rejection fine-tuning (paper §4.2): collect rollouts of the base model, and train on those that resolved a task."""

from contextlib import closing
from functools import partial
from pathlib import Path

from turnsmith.agent.loop import first_messages
from turnsmith.algo.algorithm import LossFn
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.audit.ability import describe_abilities
from turnsmith.config import RFT, RFTConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.imitation import load_samples, name_origin, read_conversations, refuse_evaluated
from turnsmith.recipes.steps import batch_samples, take_steps
from turnsmith.rollouts.inspection import describe_audits
from turnsmith.rollouts.rollout import draw_seed, plan_rollouts
from turnsmith.rollouts.samples import refuse_unproven, to_rft_sample
from turnsmith.runs.folder import RunFolder, read_json, write_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.task_set import TaskSet
from turnsmith.training.account import merge_accounts
from turnsmith.types import OUTCOMES, MicroBatch, Sample, Trajectory


async def run_rft(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> None:
    """Run RFT, or load its checkpoint if it is finished. Raises UsageError if no trajectory can be imitated."""
    policy, files = run.token_policy, run.folder.iteration(RFT, 0)
    if files.metrics.exists():
        await policy.take(SavedWeights(read_json(files.metrics)["policy/version"], files.checkpoint))
        return
    if rft.conversations:
        samples, counts = load_conversations(Path(rft.conversations), rft, run)
    else:
        samples, counts = await collect_samples(rft, tasks, run)
    batches = make_epochs(samples, rft, run.config.seed, share_prefixes=run.config.trainer.share_prefixes)
    await policy.rest()
    with closing(await policy.start_training(rft.optimizer, total_steps=len(batches))) as trainer:
        steps = await take_steps(trainer, batches, make_loss, "RFT: training", run.progress)
        await trainer.save(files.checkpoint)
        await policy.take(await trainer.publish(), files.checkpoint)
    sources = [sample.provenance.source for sample in samples if sample.provenance]
    counts |= {
        "loss/nll_first": steps[0]["loss/nll"],
        "loss/nll_last": steps[-1]["loss/nll"],
        "optimizer/steps": len(steps),
        "samples/retokenised": float(sources.count("tokenizer")),
        "policy/version": policy.weights.policy_version,
        **merge_accounts(steps),
    }
    write_json(files.metrics, counts)
    run.progress.log(f"RFT: kept {len(samples)} trajectories, {len(steps)} steps")


async def collect_samples(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> tuple[list[Sample], dict[str, float]]:
    """Collect rollouts of the base model; return samples of the resolved ones, and metrics. Raises UsageError if none is."""
    trajectories = await collect(rft, tasks, run)
    kept = keep_resolved(trajectories)
    run.progress.log(f"RFT: {len(kept)} of {len(trajectories)} trajectories were resolved")
    metrics = describe(trajectories, kept) | describe_abilities(tasks.list_abilities())
    return render_samples(kept, tasks, run), metrics


def check_conversations(path: Path, run: RunContext) -> None:
    """Raise UsageError if the conversations for RFT are missing, or are about a task of an evaluation set."""
    if not run.folder.iteration(RFT, 0).metrics.exists():
        refuse_evaluated(read_conversations(path, run.config.sandbox.min_isolation), path, run.eval_tasks)


def load_conversations(path: Path, rft: RFTConfig, run: RunContext) -> tuple[list[Sample], dict[str, float]]:
    """Make samples of another model's resolved conversations; return samples and metrics. Raises UsageError."""
    conversations = read_conversations(path, run.config.sandbox.min_isolation)
    samples, counts = load_samples(conversations, path, run.token_policy.renderer, rft.max_context)
    run.progress.log(
        f"RFT: {len(samples)} conversations of {name_origin(RunFolder(path))}, re-tokenised: their text is imitated under the "
        "chat template of model.path"
    )
    return samples, counts


async def collect(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> list[Trajectory]:
    """Collect the base model's rollouts of every task, with a demonstration in the prompt if `rft.demonstration` is set.

    Raises UsageError if a trajectory lacks the digest that proves that its tokens were sampled.
    """
    journal = run.folder.iteration(RFT, 0).trajectories
    refuse_unproven(read_trajectories(journal), journal)
    rollouts = plan_rollouts(
        tasks.list_trees(),
        prefix=RFT,
        iteration=0,
        num_each=rft.rollouts_per_task,
        seed_stream=f"{run.config.seed}/{RFT}",
    )
    trajectories = await run.generator.collect(
        rollouts,
        run.agent_for(rft),
        journal,
        label="RFT: collecting",
        demonstration=rft.demonstration,
        inspector=run.open_inspection(),
    )
    refuse_unproven(trajectories, journal)
    return trajectories


def keep_resolved(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Keep the trajectories that resolved their task. Raises UsageError if there are none."""
    kept = [trajectory for trajectory in trajectories if trajectory.resolved]
    if not kept:
        raise UsageError(
            f"the base model resolved none of {len(trajectories)} rollouts: give easier tasks or a stronger base model"
        )
    return kept


def render_samples(kept: list[Trajectory], tasks: TaskSet, run: RunContext) -> list[Sample]:
    """Make samples of trajectories, with the demonstration removed from the prompt (paper §3.3)."""
    render = run.token_policy.renderer.prompt_ids
    prompts = {task.instance_id: render(*first_messages(task, run.scaffold)) for task in tasks.tasks}
    return [to_rft_sample(each, prompts[each.instance_id]) for each in kept]


def make_epochs(
    samples: list[Sample], rft: RFTConfig, seed: int, *, share_prefixes: bool = False
) -> list[list[MicroBatch]]:
    seeds = [draw_seed(f"{seed}/{RFT}/{epoch}/batches") for epoch in range(rft.epochs)]
    return [batch for seed in seeds for batch in batch_samples(samples, rft, seed, share_prefixes=share_prefixes)]


def make_loss(batch: list[Sample]) -> LossFn:
    """Make the loss of one optimizer batch: negative log-likelihood, averaged over the loss tokens of the batch."""
    return partial(nll_loss, denominator=batch_denominator(batch))


def describe(trajectories: list[Trajectory], kept: list[Trajectory]) -> dict[str, float]:
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/kept": len(kept),
        "rollouts/resolved_rate": sum(t.resolved for t in trajectories)
        / sum(OUTCOMES[t.outcome].in_group for t in trajectories),
        **describe_audits(trajectories),
    }
