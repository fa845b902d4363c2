"""Attempts at an issue of a git checkout: a task made from a copy of the tracked files, and rollouts on it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from turnsmith.agent.loop import check_fits
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.config import RunConfig
from turnsmith.environments.building import BuildFailed, Environment
from turnsmith.environments.equipping import EnvironmentOptions, build_first_working
from turnsmith.errors import OutOfBudget, UsageError
from turnsmith.git.checkout import Checkout
from turnsmith.git.history import find_date, find_version
from turnsmith.git.one_commit import TreeFile, write_history
from turnsmith.recipes.policy.opening import open_policy
from turnsmith.recipes.solve.attempt import AttemptSetup, Watcher, make_attempt
from turnsmith.recipes.solve.given_tests import GivenTests, check_command
from turnsmith.recipes.solve.solution import STAGE, TASK_SET
from turnsmith.rollouts.rollout import Rollout, plan_rollouts
from turnsmith.runs.folder import RunFolder, write_json
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.mining.bases import WORKDIR, TreeStore, complete_layers
from turnsmith.types import Isolation, Task, TaskTree


@dataclass(frozen=True)
class Assignment:
    """Issue, checkout and options of one call of `turnsmith solve`."""

    config: RunConfig
    folder: RunFolder
    checkout: Checkout
    tree: dict[str, TreeFile]
    """Path → copy of a tracked file."""
    issue: str
    tests: str
    """Test command of the user; empty if none was given."""
    num_attempts: int
    options: EnvironmentOptions | None
    """Options of the Python environment; None to use the Python of this machine."""


async def solve(assignment: Assignment, watcher: Watcher) -> None:
    """Make all attempts and write them to the journal. Raises UsageError, SandboxError, GradingError, OutOfBudget."""
    config = assignment.config
    scaffold = load_scaffold(config.agent.scaffold, config.agent.prompts, config.agent.tools)
    provider = make_provider(config.sandbox)
    try:
        if provider.isolation == Isolation.NONE:
            watcher.log(f"warning: sandbox.kind is {config.sandbox.kind}: the agent is not isolated from this machine")
        tree = await write_task(assignment, watcher)
        tests = open_tests(assignment, tree, provider)
        for remark in await check_command(tests) if tests else []:
            watcher.log(remark)
        policy = await open_policy(config, assignment.folder, watcher)
        try:
            check_fits([tree.task], policy.dialogues, scaffold, config.agent)
            setup = AttemptSetup(config, assignment.folder, policy, provider, scaffold, tests, watcher)
            await make_attempts(plan_attempts(assignment, tree), setup)
        finally:
            if remark := policy.dialogues.status():
                watcher.log(remark)
            await policy.close()
    finally:
        await provider.close()


async def write_task(assignment: Assignment, watcher: Watcher) -> TaskTree:
    """Write the copy of the checkout to disk as a task with a git history of one commit. Raises UsageError."""
    folder, name = assignment.folder.task_set(TASK_SET).absolute(), assignment.checkout.name
    layer = TreeStore(folder).write(name, assignment.tree)
    layers: tuple[Path, ...]
    if assignment.options is None:
        commit = write_history(layer.with_name("git") / ".git", assignment.tree)
        layers, environment = (layer, layer.with_name("git")), ""
    else:
        watcher.log("building the Python environment for the tests, with network access")
        built = await build_environment(assignment, layer, folder, assignment.options)
        layers, commit = complete_layers(layer, assignment.tree, built)
        environment = str(built.folder)
    task = Task(
        instance_id=name,
        repo=name,
        base_commit=commit,
        problem_statement=assignment.issue,
        FAIL_TO_PASS=[],
        PASS_TO_PASS=[],
        patch="",
        layers=[str(each) for each in layers],
        workdir=WORKDIR,
        environment=environment,
        created_by="turnsmith solve",
    )
    write_json(assignment.folder.issue, task.model_dump(mode="json"))
    return TaskTree(task, layers)


async def build_environment(
    assignment: Assignment, layer: Path, folder: Path, options: EnvironmentOptions
) -> Environment:
    """Build the Python environment of the checkout's unchanged copy, as `tasks mine` does. Raises UsageError."""
    history, stopped = assignment.checkout.git, Event()
    contents = {path: file.content for path, file in assignment.tree.items()}

    def build() -> Environment:
        try:
            date, version = find_date(history, "HEAD"), find_version(history, "HEAD")
        except UsageError:  # no commit yet
            date, version = datetime.now(UTC).isoformat(), "0"
        return build_first_working(
            contents, (layer,), WORKDIR, folder, date=date, version=version, options=options, stopped=stopped
        )

    try:
        return await asyncio.to_thread(build)
    except BuildFailed as error:
        raise UsageError(
            f"no environment could be built ({error}): give --install, or skip it by --no-environment"
        ) from None
    finally:
        stopped.set()


def open_tests(assignment: Assignment, tree: TaskTree, provider: SandboxProvider) -> GivenTests | None:
    timeout_s = assignment.config.rollouts.tests_timeout_s
    return GivenTests(assignment.tests, tree, provider, timeout_s) if assignment.tests else None


def plan_attempts(assignment: Assignment, tree: TaskTree) -> list[Rollout]:
    return plan_rollouts(
        [tree],
        prefix=STAGE,
        iteration=0,
        num_each=assignment.num_attempts,
        seed_stream=f"{assignment.config.seed}/{STAGE}",
    )


async def make_attempts(rollouts: Sequence[Rollout], setup: AttemptSetup) -> None:
    """Run all attempts concurrently; the first that passes the user's tests cancels the others."""
    attempts = [asyncio.create_task(make_attempt(rollout, setup)) for rollout in rollouts]
    why = ""
    try:
        for ended in asyncio.as_completed(attempts):
            if (trajectory := await ended).resolved:
                why = f"attempt {trajectory.index + 1} passes the given tests"
                return
    except (asyncio.CancelledError, OutOfBudget, UsageError) as error:
        why = str(error) or "Ctrl-C"
        raise
    finally:
        for attempt in attempts:
            attempt.cancel(why)
        await asyncio.gather(*attempts, return_exceptions=True)
