"""One rollout: a fresh sandbox, an episode in it, the verdict of the tests in another. Faults become data."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnsmith.agent.loop import run_episode
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig
from turnsmith.engines.base import Engine
from turnsmith.errors import SandboxError
from turnsmith.rewards.grading import Grader
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.types import Grade, Outcome, SamplingParams, StopReason, Task, Trajectory

LOST = {
    StopReason.SANDBOX_FAILED: Outcome.SANDBOX_FAILED,
    StopReason.ENGINE_FAILED: Outcome.ENGINE_FAILED,
}
"""Endings after which there is nothing to grade."""


@dataclass(frozen=True)
class Rollout:
    """One rollout to be made."""

    task: Task
    layers: tuple[Path, ...]
    trajectory: Trajectory
    """Its record, which has only just begun."""
    decoding: SamplingParams | None = None
    """How an evaluation samples; None where the policy itself is sampled."""


@dataclass(frozen=True)
class Harness:
    """What every rollout of a run works with."""

    engine: Engine
    provider: SandboxProvider
    grader: Grader
    renderer: ChatRenderer
    scaffold: Scaffold


async def play(rollout: Rollout, harness: Harness, agent: AgentConfig, demonstration: bool) -> Trajectory:
    """The episode in a sandbox of its own; one that does not start or cannot be set up leaves a trajectory without turns."""
    try:
        sandbox = await harness.provider.start(
            SandboxSpec(rollout.layers, rollout.task.workdir, image=rollout.task.image)
        )
    except SandboxError as error:
        return lose(rollout.trajectory, error)
    try:
        await set_up(sandbox, rollout.task, rollout.layers)
        return await run_episode(
            rollout.trajectory,
            rollout.task,
            harness.engine,
            sandbox,
            harness.renderer,
            harness.scaffold,
            agent,
            demonstration=demonstration,
            decoding=rollout.decoding,
        )
    except SandboxError as error:
        return lose(rollout.trajectory, error)
    finally:
        await sandbox.stop()


def lose(trajectory: Trajectory, error: SandboxError) -> Trajectory:
    """What is left where nothing could start."""
    return trajectory.grow(stop_reason=StopReason.SANDBOX_FAILED, detail=str(error))


async def grade(trajectory: Trajectory, rollout: Rollout, harness: Harness, agent: AgentConfig) -> Trajectory:
    """The trajectory with the verdict on what its episode left."""
    verdict = await find_verdict(trajectory, rollout, harness, agent)
    return trajectory.grow(grade=verdict, outcome=verdict.outcome, detail=trajectory.detail or verdict.detail)


async def find_verdict(trajectory: Trajectory, rollout: Rollout, harness: Harness, agent: AgentConfig) -> Grade:
    """The verdict of the tests, where there is something that they can judge."""
    if trajectory.stop_reason in LOST:
        return Grade(outcome=LOST[trajectory.stop_reason], detail=trajectory.detail)
    if trajectory.stop_reason is not StopReason.SUBMITTED and not agent.grade_unsubmitted:
        return Grade(outcome=Outcome.NOT_SUBMITTED, detail=f"ended by {trajectory.stop_reason}")
    return await harness.grader.grade(rollout.task, rollout.layers, trajectory.patch)


def plan_rollouts(
    tasks: Sequence[tuple[Task, tuple[Path, ...]]], *, prefix: str, iteration: int, num_each: int, noise: str
) -> list[Rollout]:
    """`num_each` rollouts of each task, siblings side by side so that they share their prompt's computation.

    `noise` names the stream that their seeds come from: each task and each sibling has noise of its own.
    """
    return [
        Rollout(
            task,
            layers,
            Trajectory(
                trajectory_id=f"{prefix}/{task.instance_id}/{index}",
                group_id=f"{prefix}/{task.instance_id}",
                index=index,
                instance_id=task.instance_id,
                iteration=iteration,
                seed=draw_seed(f"{noise}/{task.instance_id}/{index}"),
            ),
        )
        for task, layers in tasks
        for index in range(num_each)
    ]


def draw_seed(name: str) -> int:
    """The seed that belongs to a name; 48 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
