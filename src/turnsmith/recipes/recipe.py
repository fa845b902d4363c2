"""Whole recipe (arXiv 2508.03501): base → cold start, if any → RFT → RL stages, with an evaluation of each checkpoint.

Finished work is stored in the run folder and never repeated, so the same call starts or resumes a run.
"""

from contextlib import closing

from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.audit.auditor import Auditor
from turnsmith.config import COLD_START, RFT, TRAIN, RunConfig
from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.grading.grading import Grader
from turnsmith.qualification.task_set import admit, leave_out_unfit
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.curriculum import choose_pool
from turnsmith.recipes.evaluate import announce, evaluate_all, read_finished
from turnsmith.recipes.faults import find_faults
from turnsmith.recipes.fitting import keep_fitting
from turnsmith.recipes.imitation import check_conversations, list_unread, read_conversations, refuse_evaluated
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.recipes.policy.base import Policy
from turnsmith.recipes.policy.opening import open_policy
from turnsmith.recipes.results import BASE, EvalResult, read_results
from turnsmith.recipes.task_sets import list_mutants, prepare_task_set, warn_of_older
from turnsmith.rollouts.generator import Generator
from turnsmith.runs.folder import RunFolder, claim, locked, remove_unless_named, sweep, write_json
from turnsmith.runs.versions import record_versions
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.task_set import TaskSet, check_disjoint
from turnsmith.tracking import Progress
from turnsmith.tracking.feed import Feed
from turnsmith.tracking.log_file import LogFile
from turnsmith.types import Isolation


async def run_recipe(config: RunConfig, folder: RunFolder, progress: Progress | None = None) -> list[EvalResult]:
    """Start or resume a run in its folder, write `results.json` at its end, and return all results.

    Without `progress`, progress is written to `run.log` only. An error that stops the run is also written to `stopped.txt`.
    Raises UsageError, TooManyFailures, TrainingError, NoSignal.
    """
    config = make_paths_absolute(config)
    for fault in find_faults(config):
        raise fault
    check_conversations(config, folder)
    is_new = claim(folder, config.model_dump(mode="json"))
    try:
        with locked(folder):
            return await run_to_end(config, folder, progress or LogFile(folder.log))
    except UsageError as error:
        if is_new and folder.is_untouched():
            remove_unless_named(folder, error)
        raise


async def run_to_end(config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """Clean up after killed processes, finish the run and write `results.json`; an error's message goes to `stopped.txt`."""
    sweep(folder, config.keep_checkpoints)
    record_versions(folder)
    folder.stop_reason.unlink(missing_ok=True)
    progress.log(f"run folder {folder.path}: loading model, tasks and finished work")
    try:
        results = report_finished(config, folder, progress) or await open_and_run(config, folder, progress)
    except TurnsmithError as error:
        folder.stop_reason.write_text(f"{error}\n", encoding="utf-8")
        raise
    write_json(folder.results, read_results(folder, [BASE, *config.training], [*config.eval_tasks]))
    return results


def report_finished(config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """Report the results of a finished run that trains nothing, and send its metrics to the trackers; [] if work is left."""
    if results := read_finished(config, folder):
        announce(BASE, results, progress)
        with closing(Feed(config, folder, progress)) as feed:
            feed.update()
    return results


async def open_and_run(config: RunConfig, folder: RunFolder, progress: Progress) -> list[EvalResult]:
    """Open the policy and the sandbox provider, run all parts of the recipe, then close policy and provider."""
    policy = await open_policy(config, folder, progress)
    provider = make_provider(config.sandbox)
    try:
        check_isolation(config, provider)
        if provider.isolation == Isolation.NONE:
            progress.log(
                f"warning: sandbox.kind is {config.sandbox.kind}: agents and tests are not isolated from this machine"
            )
        run = await prepare_run(config, folder, progress, policy, provider)
        with closing(run.feed):
            return await run_parts(run)
    finally:
        await policy.close()
        await provider.close()


def check_isolation(config: RunConfig, provider: SandboxProvider) -> None:
    """Raise UsageError if the run trains and its sandboxes isolate less than `sandbox.min_isolation`."""
    obtained, wanted = Isolation(provider.isolation), config.sandbox.min_isolation
    if config.training and obtained.is_weaker_than(wanted):
        raise UsageError(
            f"sandbox.kind {config.sandbox.kind} gives isolation {obtained} on this machine, and RFT and RL need "
            f"{wanted}: choose another kind, evaluate only, or accept it by --sandbox.min_isolation {obtained}"
        )


async def prepare_run(
    config: RunConfig, folder: RunFolder, progress: Progress, policy: Policy, provider: SandboxProvider
) -> RunContext:
    """Make or read the task sets, and build the run's context. Raises UsageError."""
    scaffold = load_scaffold(config.agent.scaffold, config.agent.prompts, config.agent.tools)
    if config.train_tasks and config.collects:
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
    generator = Generator(policy.dialogues, provider, grader, scaffold, config.rollouts, progress)
    feed = Feed(config, folder, progress)
    return RunContext(config, folder, policy, scaffold, generator, auditor, train_tasks, eval_tasks, progress, feed)


async def run_parts(run: RunContext) -> list[EvalResult]:
    """Evaluate the base model, then run cold start, RFT and each RL stage, each followed by an evaluation."""
    run = keep_fitting(run)
    config, pool = run.config, run.train_tasks
    if config.training:
        # Training imports torch, which a run with an endpoint does not need.
        from turnsmith.recipes.cold_start import check_scaffold, run_cold_start
        from turnsmith.recipes.rft import run_rft
        from turnsmith.recipes.rl import run_stage
    for path in list_unread(config, run.folder):
        refuse_evaluated(read_conversations(path, config.sandbox.min_isolation), path, run.eval_tasks)
    if config.cold_start:
        check_scaffold(config.cold_start.conversations, run)
    results = await evaluate_all(run.eval_tasks, BASE, run)
    if config.cold_start:
        await run_cold_start(config.cold_start, run)
        results += await evaluate_all(run.eval_tasks, COLD_START, run)
    if config.rft:
        await run_rft(config.rft, pool, run)
        results += await evaluate_all(run.eval_tasks, RFT, run)
    before = ""
    for stage in config.stages:
        pool = choose_pool(pool, stage, before, run)
        await run_stage(stage, pool, run)
        results += await evaluate_all(run.eval_tasks, stage.name, run)
        before = stage.name
    return results
