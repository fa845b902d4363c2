"""One attempt at an issue: an episode in its own sandbox, its patch, and the result of the user's tests.

A trajectory is written to the journal even if the attempt is stopped.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.config import RunConfig
from turnsmith.errors import GradingError, OutOfBudget, SandboxError, UsageError
from turnsmith.recipes.policy.base import Policy
from turnsmith.recipes.solve.given_tests import GivenTests, TestRun
from turnsmith.recipes.solve.solution import STAGE, TASK_SET, write_tests
from turnsmith.rollouts.generator import LOST, retry_lost
from turnsmith.rollouts.rollout import Rollout
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import append_trajectory
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up_for_agent
from turnsmith.tracking import Progress
from turnsmith.types import Grade, Outcome, StopReason, Trajectory, Turn


class Watcher(Progress, Protocol):
    """Interface of a progress display that also shows the turns of attempts."""

    def show_turn(self, attempt: int, number: int, turn: Turn) -> None:
        """Show a finished turn; attempts are counted from 0, turns from 1."""


@dataclass(frozen=True)
class AttemptSetup:
    """Objects that all attempts of one `turnsmith solve` share."""

    config: RunConfig
    folder: RunFolder
    policy: Policy
    provider: SandboxProvider
    scaffold: Scaffold
    tests: GivenTests | None
    watcher: Watcher

    @property
    def journal(self) -> Path:
        return self.folder.eval_trajectories(STAGE, TASK_SET)


async def make_attempt(rollout: Rollout, setup: AttemptSetup) -> Trajectory:
    """Run and test one attempt; an attempt lost to the infrastructure is retried."""
    trajectory = await retry_lost(
        lambda: play(rollout, setup), is_lost=lambda played: played.stop_reason in LOST and not played.patch
    )
    try:
        trajectory = await test_patch(trajectory, setup)
    finally:
        append_trajectory(setup.journal, trajectory)
    setup.watcher.log(
        f"attempt {trajectory.index + 1}: {trajectory.stop_reason}, {trajectory.outcome} {trajectory.detail}"
    )
    return trajectory


async def play(rollout: Rollout, setup: AttemptSetup) -> Trajectory:
    """Run one episode in its own sandbox. If it is stopped, write its partial trajectory to the journal."""
    config = setup.config
    decoding = None if config.eval.sampling.is_policy else config.eval.sampling
    try:
        async with started(setup.provider, SandboxSpec.of(rollout.tree)) as sandbox:
            await set_up_for_agent(sandbox, rollout.tree)
            dialogue = setup.policy.dialogues.open(rollout.trajectory, config.agent, decoding)
            episode = Episode(rollout.trajectory, rollout.tree.task, dialogue, sandbox, setup.scaffold, config.agent)
            episode.on_turn = lambda turn: setup.watcher.show_turn(rollout.trajectory.index, len(episode.turns), turn)
            try:
                trajectory = await episode.play()
                return trajectory if trajectory.patch else trajectory.grow(patch=await sandbox.diff())
            except (asyncio.CancelledError, OutOfBudget, UsageError) as error:
                append_trajectory(setup.journal, await end_early(episode, sandbox, str(error)))
                raise
    except SandboxError as error:
        return rollout.trajectory.grow(stop_reason=StopReason.SANDBOX_FAILED, detail=str(error))


async def end_early(episode: Episode, sandbox: Sandbox, why: str) -> Trajectory:
    """Return the partial trajectory of a stopped episode, with the reason and the patch so far."""
    try:
        patch = await sandbox.diff()
    except SandboxError:
        patch = ""
    return episode.trajectory.grow(
        **episode.dialogue.columns(),
        turns=episode.turns,
        stop_reason=StopReason.STOPPED,
        patch=patch,
        isolation=sandbox.isolation,
        # The remedy at the end of the message is cut off: it applies only to runs that can be resumed.
        detail=f"stopped: {why.rpartition(': ')[0] or why}",
    )


async def test_patch(trajectory: Trajectory, setup: AttemptSetup) -> Trajectory:
    """Run the user's tests, if any, on a trajectory's patch; return the trajectory with the result. Empty patches fail."""
    if not trajectory.patch:
        lost = trajectory.stop_reason in LOST
        outcome = Outcome(trajectory.stop_reason.value) if lost else Outcome.EMPTY_PATCH
        return trajectory.grow(outcome=outcome, detail=trajectory.detail or "nothing was changed")
    if not setup.tests:
        return trajectory
    try:
        run = await setup.tests.run(trajectory.patch)
    except (SandboxError, GradingError) as error:
        return trajectory.grow(outcome=Outcome.GRADER_FAILED, detail=str(error))
    write_tests(setup.folder, trajectory, run)
    grade = to_grade(run, setup.provider.isolation)
    return trajectory.grow(grade=grade, outcome=grade.outcome, detail=grade.detail)


def to_grade(run: TestRun, isolation: str) -> Grade:
    """Convert the result of the user's test command to a grade."""
    outcome = Outcome.RESOLVED if run.passed else Outcome.UNRESOLVED
    left_out = f"{len(run.left_out)} files left out" if run.left_out else ""
    detail = "; ".join(filter(None, [run.reason, left_out]))
    return Grade(outcome=outcome, isolation=isolation, detail=detail, duration_s=run.duration_s)
