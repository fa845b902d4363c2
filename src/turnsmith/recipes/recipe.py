"""The whole recipe (arXiv 2508.03501): base → rejection fine-tuning → RL stage by stage, each checkpoint evaluated.

Everything that is done lies in the run folder and is not done again: the same call starts a run and resumes it.
"""

from contextlib import closing

from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.audit.auditor import Auditor
from turnsmith.config import TRAIN, RunConfig
from turnsmith.errors import UsageError
from turnsmith.grading.grading import Grader
from turnsmith.qualification.task_set import admit, leave_out_unfit
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.curriculum import choose_pool
from turnsmith.recipes.evaluate import BASE, EvalResult, announce, evaluate_all, read_finished
from turnsmith.recipes.fitting import keep_fitting
from turnsmith.recipes.policy.player import Player, open_player
from turnsmith.recipes.task_sets import list_mutants, prepare_task_set, warn_of_older
from turnsmith.rollouts.generator import Generator
from turnsmith.runs.folder import RunFolder
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.task_set import TaskSet, check_disjoint
from turnsmith.tracking import Progress
from turnsmith.tracking.feed import Feed
from turnsmith.types import Isolation


async def run_recipe(config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """Start or resume a run; returns all results. Raises UsageError, InfrastructureStorm, TrainingError, NoSignal."""
    if results := read_finished(config, folder):
        return tell_again(results, config, folder, progress)
    player = await open_player(config, folder, progress)
    provider = make_provider(config.sandbox)
    try:
        check_isolation(config, provider)
        run = await prepare_run(config, folder, progress, player, provider)
        with closing(run.feed):
            return await run_parts(run)
    finally:
        await player.close()
        await provider.close()


def tell_again(results: list[EvalResult], config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """What is finished, with no model and no server asked; trackers get what they lack."""
    announce(BASE, results, progress)
    with closing(Feed(config, folder, progress)) as feed:
        feed.update()
    return results


def check_isolation(config: RunConfig, provider: SandboxProvider) -> None:
    """What trains needs the tier that the configuration asks for, before anything is made. Raises UsageError."""
    obtained, wanted = Isolation(provider.isolation), config.sandbox.min_isolation
    if (config.rft or config.stages) and obtained.is_weaker_than(wanted):
        raise UsageError(
            f"sandbox.kind {config.sandbox.kind} gives isolation {obtained} on this machine, and RFT and RL need "
            f"{wanted}: choose another kind, evaluate only, or accept it by --sandbox.min_isolation {obtained}"
        )


async def prepare_run(
    config: RunConfig, folder: RunFolder, progress: Progress, player: Player, provider: SandboxProvider
) -> RunContext:
    """Make or read the tasks, and put together what the run works with."""
    scaffold = load_scaffold(config.agent.scaffold, config.agent.prompts, config.agent.tools)
    if config.train_tasks and (config.rft or config.stages):
        train_tasks = await prepare_task_set(TRAIN, config.train_tasks, config, folder, provider, progress)
        train_tasks = await admit(train_tasks, config, provider, progress)
    else:
        train_tasks = TaskSet(TRAIN, [], folder.task_set(TRAIN))
    eval_tasks = []
    for name, source in config.eval_tasks.items():
        task_set = await prepare_task_set(name, source, config, folder, provider, progress)
        eval_tasks.append(leave_out_unfit(task_set, config.sandbox, progress))
    check_disjoint(train_tasks, eval_tasks)
    warn_of_older(train_tasks, eval_tasks, progress)
    timeout_s, num_workers = config.rollouts.tests_timeout_s, config.rollouts.grading_workers
    grader = Grader(provider, tests_timeout_s=timeout_s, num_workers=num_workers)
    mutants = list_mutants(train_tasks)
    auditor = Auditor(provider, tests_timeout_s=timeout_s, num_workers=num_workers, mutants=mutants)
    generator = Generator(player.speaker, provider, grader, scaffold, config.rollouts, progress)
    feed = Feed(config, folder, progress)
    return RunContext(config, folder, player, scaffold, generator, auditor, train_tasks, eval_tasks, progress, feed)


async def run_parts(run: RunContext) -> list[EvalResult]:
    """Base, RFT, stages; after each, evaluation."""
    run = keep_fitting(run)
    config, pool = run.config, run.train_tasks
    if config.rft or config.stages:
        # Training imports torch, which the run of an endpoint does without.
        from turnsmith.recipes.rft import check_others, run_rft
        from turnsmith.recipes.rl import run_stage
    if config.rft:
        check_others(config.rft, run)
    results = await evaluate_all(run.eval_tasks, BASE, run)
    if config.rft:
        await run_rft(config.rft, pool, run)
        results += await evaluate_all(run.eval_tasks, "rft", run)
    before = ""
    for stage in config.stages:
        pool = choose_pool(pool, stage, before, run)
        await run_stage(stage, pool, run)
        results += await evaluate_all(run.eval_tasks, stage.name, run)
        before = stage.name
    return results
