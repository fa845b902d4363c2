"""Rejection fine-tuning (paper §4.2): collect rollouts of the base, keep the resolved ones, imitate them."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from turnsmith.agent.loop import first_messages
from turnsmith.algo.algorithm import LossFn
from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.audit.ability import describe_abilities
from turnsmith.config import RFTConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.conversations import load_samples, read_conversations
from turnsmith.recipes.steps import deal, take_steps
from turnsmith.recipes.teachers import list_known_tasks, name_origin, read_run
from turnsmith.rollouts.inspection import describe_audits
from turnsmith.rollouts.provenance import refuse_unproven
from turnsmith.rollouts.rollout import draw_seed, plan_rollouts
from turnsmith.rollouts.samples import to_rft_sample
from turnsmith.runs.folder import RunFolder, read_json, write_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.task_set import TaskSet, find_shared
from turnsmith.types import OUTCOMES, Conversation, MicroBatch, Sample, Trajectory

STAGE = "rft"


async def run_rft(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> None:
    """Run RFT, or load its checkpoint if it is finished. Raises UsageError if no trajectory can be imitated."""
    policy, checkpoint, metrics = (
        run.token_policy,
        run.folder.iteration(STAGE, 0).checkpoint,
        run.folder.iteration(STAGE, 0).metrics,
    )
    if metrics.exists():
        await policy.take(SavedWeights(read_json(metrics)["policy/version"], checkpoint))
        return
    samples, counts = load_others(rft, run) if rft.conversations else await collect_own(rft, tasks, run)
    batches = make_epochs(samples, rft, run.config.seed)
    with closing(await policy.start_training(rft.optimizer, total_steps=len(batches))) as trainer:
        steps = await take_steps(trainer, batches, make_loss, "RFT: training", run.progress)
        await policy.take(await trainer.publish())
        await trainer.save(checkpoint)
    counts |= describe_training([step["loss/nll"] for step in steps])
    counts["samples/retokenised"] = float(sum(is_retokenised(sample) for sample in samples))
    write_json(metrics, counts | {"policy/version": policy.weights.policy_version})
    run.progress.log(f"RFT: kept {len(samples)} trajectories, {len(steps)} steps")


async def collect_own(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> tuple[list[Sample], dict[str, float]]:
    """Make samples of the base's resolved rollouts, with metrics. Raises UsageError if there are none."""
    trajectories = await collect(rft, tasks, run)
    kept = keep_resolved(trajectories)
    run.progress.log(f"RFT: {len(kept)} of {len(trajectories)} trajectories were resolved")
    metrics = describe(trajectories, kept) | describe_abilities(tasks.list_abilities())
    return render_samples(kept, tasks, run), metrics


def check_others(rft: RFTConfig, run: RunContext) -> None:
    """Raise UsageError if `rft.conversations` are missing, or are about a task that is evaluated."""
    if not rft.conversations or run.folder.iteration(STAGE, 0).metrics.exists():
        return
    about = {each.instance_id for each in open_others(rft, run) if each.resolved}
    known = [task for task in list_known_tasks(RunFolder(Path(rft.conversations))) if task.instance_id in about]
    for task_set in run.eval_tasks:
        same = {evaluated for evaluated, _ in find_shared(known, task_set.tasks)}
        if shared := sorted(same | about.intersection(task.instance_id for task in task_set.tasks)):
            raise UsageError(
                f"{rft.conversations} holds conversations about {len(shared)} tasks that are evaluated, e.g. {shared[0]} of "
                f"eval_tasks.{task_set.name}: remove them from one"
            )


def open_others(rft: RFTConfig, run: RunContext) -> Iterator[Conversation]:
    """Read conversations from a file, or from the run folder of an endpoint. Raises UsageError."""
    path = Path(rft.conversations or "")
    teacher = RunFolder(path)
    is_run = teacher.config.is_file()
    return read_run(teacher, run.config.sandbox.min_isolation) if is_run else read_conversations(path)


def load_others(rft: RFTConfig, run: RunContext) -> tuple[list[Sample], dict[str, float]]:
    """Make samples of resolved conversations of another model, with metrics. Raises UsageError."""
    path = Path(rft.conversations or "")
    samples, counts = load_samples(open_others(rft, run), path, run.token_policy.renderer, rft.max_context)
    run.progress.log(
        f"RFT: {len(samples)} conversations of {name_origin(RunFolder(path))}, re-tokenised: their text is imitated under the "
        "chat template of model.path"
    )
    return samples, counts


async def collect(rft: RFTConfig, tasks: TaskSet, run: RunContext) -> list[Trajectory]:
    """Collect rollouts of every task from the base, with a demonstration if `rft.demonstration` is set.

    Raises UsageError if a trajectory has no digest that proves its tokens were sampled.
    """
    journal = run.folder.iteration(STAGE, 0).trajectories
    refuse_unproven(read_trajectories(journal), journal)
    rollouts = plan_rollouts(
        tasks.list_trees(),
        prefix=STAGE,
        iteration=0,
        num_each=rft.rollouts_per_task,
        seed_stream=f"{run.config.seed}/{STAGE}",
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
    """Keep the resolved trajectories. Raises UsageError if there is none."""
    kept = [trajectory for trajectory in trajectories if trajectory.resolved]
    if not kept:
        raise UsageError(
            f"the base resolved none of {len(trajectories)} rollouts: give easier tasks or a stronger base"
        )
    return kept


def render_samples(kept: list[Trajectory], tasks: TaskSet, run: RunContext) -> list[Sample]:
    """Make samples of kept trajectories, with the prompt without demonstration (paper §3.3)."""
    render = run.token_policy.renderer.prompt_ids
    prompts = {task.instance_id: render(*first_messages(task, run.scaffold)) for task in tasks.tasks}
    return [to_rft_sample(each, prompts[each.instance_id]) for each in kept]


def make_epochs(samples: list[Sample], rft: RFTConfig, seed: int) -> list[list[MicroBatch]]:
    """Make the optimizer batches of all epochs."""
    seeds = [draw_seed(f"{seed}/{STAGE}/{epoch}/batches") for epoch in range(rft.epochs)]
    return [batch for seed in seeds for batch in deal(samples, rft, seed)]


def make_loss(batch: list[Sample]) -> LossFn:
    """Make the negative log-likelihood loss of one batch, averaged over its loss tokens."""
    return partial(nll_loss, denominator=batch_denominator(batch))


def describe(trajectories: list[Trajectory], kept: list[Trajectory]) -> dict[str, float]:
    """Compute metrics of the collected trajectories."""
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/kept": len(kept),
        "rollouts/resolved_rate": sum(t.resolved for t in trajectories)
        / sum(OUTCOMES[t.outcome].in_group for t in trajectories),
        **describe_audits(trajectories),
    }


def is_retokenised(sample: Sample) -> bool:
    """Return True if the tokens come from tokenised text instead of an engine."""
    return sample.provenance is not None and sample.provenance.source == "tokenizer"


def describe_training(losses: list[float]) -> dict[str, float]:
    """Compute metrics of the optimizer steps: first and last loss, number of steps."""
    return {"loss/nll_first": losses[0], "loss/nll_last": losses[-1], "optimizer/steps": len(losses)}
