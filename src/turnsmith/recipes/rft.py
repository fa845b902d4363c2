"""Rejection fine-tuning (paper §4.2): collect rollouts of the base model, and train on those that resolved a task."""

from turnsmith.agent.loop import first_messages
from turnsmith.audit.ability import describe_abilities
from turnsmith.config import RFT, RFTConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.fine_tuning import fine_tune, load_finished
from turnsmith.recipes.imitation import load_conversations
from turnsmith.rollouts.inspection import describe_audits
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.rollouts.samples import refuse_unproven, to_rft_sample
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.task_set import TaskSet
from turnsmith.types import OUTCOMES, Sample, Trajectory


async def run_rft(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> None:
    """Run RFT, or load its checkpoint if it is finished. Raises UsageError if no trajectory can be imitated."""
    if await load_finished(RFT, run):
        return
    if rft.conversations:
        samples, counts = load_conversations(RFT, rft.conversations, rft, run)
    else:
        samples, counts = await collect_samples(rft, tasks, run)
    await fine_tune(RFT, rft, samples, counts, run)


async def collect_samples(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> tuple[list[Sample], dict[str, float]]:
    """Collect rollouts of the base model; return samples of the resolved ones, and metrics. Raises UsageError if none is."""
    trajectories = await collect(rft, tasks, run)
    kept = keep_resolved(trajectories)
    run.progress.log(f"RFT: {len(kept)} of {len(trajectories)} trajectories were resolved")
    metrics = describe(trajectories, kept) | describe_abilities(tasks.list_abilities())
    return render_samples(kept, tasks, run), metrics


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


def describe(trajectories: list[Trajectory], kept: list[Trajectory]) -> dict[str, float]:
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/kept": len(kept),
        "rollouts/resolved_rate": sum(t.resolved for t in trajectories)
        / sum(OUTCOMES[t.outcome].in_group for t in trajectories),
        **describe_audits(trajectories),
    }
