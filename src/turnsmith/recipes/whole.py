"""The whole recipe (arXiv 2508.03501): base → rejection fine-tuning → RL stage by stage, each checkpoint evaluated.

Everything that is done lies in the run folder and is not done again: the same call starts a run and resumes it.
"""

from dataclasses import dataclass

from turnsmith.agent.prompts import Prompts, load_prompts
from turnsmith.config import RunConfig
from turnsmith.recipes.evaluate import EvalResult, evaluate
from turnsmith.recipes.policy import Policy, load_policy
from turnsmith.recipes.rft import run_rft
from turnsmith.recipes.rl import apply_curriculum, run_stage
from turnsmith.recipes.task_sets import TaskSet, prepare_task_set
from turnsmith.rewards.grading import Grader
from turnsmith.rollouts.generator import LocalGenerator
from turnsmith.rollouts.rollout import Bench
from turnsmith.runs import RunFolder
from turnsmith.sandboxes import make_provider
from turnsmith.tracking import Progress


@dataclass
class Workshop:
    """Everything that a run works with."""

    config: RunConfig
    folder: RunFolder
    policy: Policy
    prompts: Prompts
    generator: LocalGenerator
    train_tasks: TaskSet
    eval_tasks: list[TaskSet]
    progress: Progress


async def run(config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """Start or resume a run; returns all results. Raises UsageError, InfrastructureStorm, TrainingError."""
    policy = load_policy(config)
    provider = make_provider(config.sandbox)
    try:
        train_tasks = TaskSet("train", [], folder.task_set("train"))
        if config.rft or config.stages:
            train_tasks = await prepare_task_set("train", config.train_tasks, train_tasks.file, provider, progress)
        eval_tasks = [
            await prepare_task_set(name, task_set, folder.task_set(name), provider, progress)
            for name, task_set in config.eval_tasks.items()
        ]
        grader = Grader(
            provider,
            tests_timeout_s=config.rollouts.tests_timeout_s,
            num_workers=config.rollouts.grading_workers,
        )
        prompts = load_prompts(config.agent.prompts)
        bench = Bench(policy.engine, provider, grader, policy.renderer, prompts)
        generator = LocalGenerator(bench, config.rollouts, progress)
        workshop = Workshop(config, folder, policy, prompts, generator, train_tasks, eval_tasks, progress)
        return await learn(workshop)
    finally:
        policy.engine.close()
        await provider.close()


async def learn(workshop: Workshop) -> list[EvalResult]:
    """Base, RFT, stages; after each, evaluation."""
    config, folder = workshop.config, workshop.folder
    results = await evaluate_all("base", workshop)
    if config.rft:
        await run_rft(
            config, config.rft, workshop.train_tasks, workshop.policy, workshop.prompts,
            workshop.generator, folder, workshop.progress,
        )  # fmt: skip
        results += await evaluate_all("rft", workshop)
    pool = workshop.train_tasks
    for index, stage in enumerate(config.stages):
        if stage.curriculum and index:
            pool = apply_curriculum(pool, config.stages[index - 1], folder)
            workshop.progress.say(f"curriculum: {len(pool.tasks)} of {len(workshop.train_tasks.tasks)} tasks stay")
        await run_stage(config, stage, pool, workshop.policy, workshop.generator, folder, workshop.progress)
        results += await evaluate_all(stage.name, workshop)
    return results


async def evaluate_all(stage: str, workshop: Workshop) -> list[EvalResult]:
    """Evaluate the policy at hand on every evaluation set, under the limits of `agent`, and write the results down."""
    agent = workshop.config.agent
    results = [
        await evaluate(stage, task_set, agent, workshop.config.eval, workshop.generator, workshop.folder)
        for task_set in workshop.eval_tasks
    ]
    for result in results:
        note = f" ± {result.sem:.1%}" if result.sem is not None else ""
        workshop.progress.say(f"{stage} on {result.task_set}: Pass@1 {result.pass_at_1:.1%}{note}")
    return results
