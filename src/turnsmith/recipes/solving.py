"""An issue of an ordinary checkout is worked on: a copy of what git tracks, attempts in sandboxes of their own, the given tests.

Whatever happens, what an attempt has left is in the journal: also of one that was stopped.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Protocol

from turnsmith.agent.loop import Episode, check_fits
from turnsmith.agent.scaffolds.base import Scaffold, load_scaffold
from turnsmith.config import RunConfig
from turnsmith.environments.building import BuildFailed, Environment
from turnsmith.environments.equipping import Wishes, equip
from turnsmith.errors import GradingError, OutOfBudget, SandboxError, UsageError
from turnsmith.journals import append_trajectory
from turnsmith.recipes.checkout import Checkout
from turnsmith.recipes.players import Player, open_player
from turnsmith.recipes.solutions import STAGE, TASK_SET, write_tests
from turnsmith.rewards.cases import set_up
from turnsmith.rewards.given_tests import GivenTests, TestRun, check_command
from turnsmith.rollouts.generator import LOST, persist
from turnsmith.rollouts.rollout import Rollout, plan_rollouts
from turnsmith.runs import RunFolder, write_json
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.synthesis.mining.bases import WORKDIR
from turnsmith.synthesis.mining.history import find_date, find_version
from turnsmith.synthesis.mining.trees import TreeStore, complete_layers
from turnsmith.tasks.history import TreeFile, write_history
from turnsmith.tracking import Progress
from turnsmith.types import Grade, Outcome, StopReason, Task, Trajectory, Turn

STOPPED = "stopped before its end"


@dataclass(frozen=True)
class Assignment:
    """What is to be done, and where it goes."""

    config: RunConfig
    folder: RunFolder
    checkout: Checkout
    tree: dict[str, TreeFile]
    """The copy."""
    issue: str
    tests: str
    """Command, or nothing."""
    num_attempts: int
    wishes: Wishes | None
    """For the environment; None where this machine's own Python is meant."""


class Watcher(Progress, Protocol):
    """Who is told of what happens."""

    def show_turn(self, attempt: int, number: int, turn: Turn) -> None:
        """A turn that has been answered; attempts are counted from 0, turns from 1."""


@dataclass(frozen=True)
class Work:
    """What the attempts share."""

    assignment: Assignment
    player: Player
    provider: SandboxProvider
    scaffold: Scaffold
    tests: GivenTests | None
    watcher: Watcher

    @property
    def journal(self) -> Path:
        return self.assignment.folder.eval_trajectories(STAGE, TASK_SET)


async def solve(assignment: Assignment, watcher: Watcher) -> None:
    """Make the attempts; they are in the journal. Raises UsageError, SandboxError, GradingError, OutOfBudget."""
    config = assignment.config
    scaffold = load_scaffold(config.agent.scaffold, config.agent.prompts, config.agent.tools)
    provider = make_provider(config.sandbox)
    try:
        task, layers = await lay_out(assignment, watcher)
        tests = open_tests(assignment, task, layers, provider)
        for remark in await check_command(tests) if tests else []:
            watcher.say(remark)
        player = await open_player(config, assignment.folder.costs, watcher)
        try:
            check_fits([task], player.speaker, scaffold, config.agent)
            await make_attempts(task, layers, Work(assignment, player, provider, scaffold, tests, watcher))
        finally:
            if remark := player.speaker.remark():
                watcher.say(remark)
            await player.close()
    finally:
        await provider.close()


async def lay_out(assignment: Assignment, watcher: Watcher) -> tuple[Task, tuple[Path, ...]]:
    """The issue as a task, and the layers of the copy with a history of one commit. Raises UsageError."""
    folder, name = assignment.folder.task_set(TASK_SET).absolute(), assignment.checkout.name
    layer = TreeStore(folder).write(name, assignment.tree)
    layers: tuple[Path, ...]
    if assignment.wishes is None:
        commit = write_history(layer.with_name("git") / ".git", assignment.tree)
        layers, environment = (layer, layer.with_name("git")), ""
    else:
        watcher.say("building the environment of the tests, with network")
        built = await build_environment(assignment, layer, folder, assignment.wishes)
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
    return task, layers


async def build_environment(assignment: Assignment, layer: Path, folder: Path, wishes: Wishes) -> Environment:
    """Found and built as `tasks mine` does it, before any agent has touched the copy. Raises UsageError."""
    history, stopped = assignment.checkout.git, Event()
    contents = {path: file.content for path, file in assignment.tree.items()}

    def build() -> Environment:
        try:
            date, version = find_date(history, "HEAD"), find_version(history, "HEAD")
        except UsageError:  # nothing is committed yet
            date, version = datetime.now(UTC).isoformat(), "0"
        return equip(contents, (layer,), WORKDIR, folder, date=date, version=version, wishes=wishes, stopped=stopped)

    try:
        return await asyncio.to_thread(build)
    except BuildFailed as error:
        raise UsageError(
            f"no environment could be built ({error}): say how by --install, or do without by --no-environment"
        ) from None
    finally:
        stopped.set()


def open_tests(
    assignment: Assignment, task: Task, layers: tuple[Path, ...], provider: SandboxProvider
) -> GivenTests | None:
    """None where no tests are given."""
    timeout_s = assignment.config.rollouts.tests_timeout_s
    return GivenTests(assignment.tests, task, layers, provider, timeout_s) if assignment.tests else None


async def make_attempts(task: Task, layers: tuple[Path, ...], work: Work) -> None:
    """All at once; the first that passes the given tests stops the others."""
    rollouts = plan_rollouts(
        [(task, layers)],
        prefix=STAGE,
        iteration=0,
        num_each=work.assignment.num_attempts,
        noise=f"{work.assignment.config.seed}/{STAGE}",
    )
    attempts = [asyncio.create_task(make_attempt(rollout, work)) for rollout in rollouts]
    try:
        for ended in asyncio.as_completed(attempts):
            if (await ended).resolved:
                return
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)


async def make_attempt(rollout: Rollout, work: Work) -> Trajectory:
    """One of them, played and tested; what the infrastructure broke is played again, as often as the configuration allows."""
    trajectory = await persist(
        lambda: play(rollout, work),
        is_lost=lambda played: played.stop_reason in LOST and not played.patch,
        retries=work.assignment.config.rollouts.retries,
    )
    try:
        trajectory = await test_patch(trajectory, work)
    finally:
        append_trajectory(work.journal, trajectory)
    work.watcher.say(
        f"attempt {trajectory.index + 1}: {trajectory.stop_reason}, {trajectory.outcome} {trajectory.detail}"
    )
    return trajectory


async def play(rollout: Rollout, work: Work) -> Trajectory:
    """The episode in a sandbox of its own. Where it is stopped, what it has come to goes to the journal."""
    config, task = work.assignment.config, rollout.task
    decoding = None if config.eval.sampling.is_policy else config.eval.sampling
    try:
        async with started(work.provider, SandboxSpec.of(task, rollout.layers)) as sandbox:
            await set_up(sandbox, task, rollout.layers)
            dialogue = work.player.speaker.open(rollout.trajectory, config.agent, decoding)
            episode = Episode(rollout.trajectory, task, dialogue, sandbox, work.scaffold, config.agent)
            episode.on_turn = lambda turn: work.watcher.show_turn(rollout.trajectory.index, len(episode.turns), turn)
            try:
                trajectory = await episode.play()
            except (asyncio.CancelledError, OutOfBudget, UsageError):
                append_trajectory(work.journal, await rescue(episode, sandbox))
                raise
            return trajectory if trajectory.patch else trajectory.grow(patch=await sandbox.diff())
    except SandboxError as error:
        return rollout.trajectory.grow(stop_reason=StopReason.SANDBOX_FAILED, detail=str(error))


async def rescue(episode: Episode, sandbox: Sandbox) -> Trajectory:
    """What an episode has come to that goes no further."""
    try:
        patch = await sandbox.diff()
    except SandboxError:
        patch = ""
    return episode.trajectory.grow(
        **episode.dialogue.columns(), turns=episode.turns, patch=patch, isolation=sandbox.isolation, detail=STOPPED
    )


async def test_patch(trajectory: Trajectory, work: Work) -> Trajectory:
    """With the verdict of the given tests, where there are some and something was changed."""
    if not trajectory.patch:
        lost = trajectory.stop_reason in LOST
        outcome = Outcome(trajectory.stop_reason.value) if lost else Outcome.EMPTY_PATCH
        return trajectory.grow(outcome=outcome, detail=trajectory.detail or "nothing was changed")
    if not work.tests:
        return trajectory
    try:
        run = await work.tests.run(trajectory.patch)
    except (SandboxError, GradingError) as error:
        return trajectory.grow(outcome=Outcome.GRADER_FAILED, detail=str(error))
    write_tests(work.assignment.folder, trajectory, run)
    grade = to_grade(run, work.provider.isolation)
    return trajectory.grow(grade=grade, outcome=grade.outcome, detail=grade.detail)


def to_grade(run: TestRun, isolation: str) -> Grade:
    """The verdict in the words of a trajectory."""
    outcome = Outcome.RESOLVED if run.passed else Outcome.UNRESOLVED
    left_out = f"{len(run.left_out)} files left out" if run.left_out else ""
    detail = "; ".join(filter(None, [run.reason, left_out]))
    return Grade(outcome=outcome, isolation=isolation, detail=detail, duration_s=run.duration_s)
