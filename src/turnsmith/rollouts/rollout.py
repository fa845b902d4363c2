"""One rollout: a fresh sandbox, an episode in it, the verdict of the tests in another. Faults become data."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnsmith.agent.episode import Episode
from turnsmith.agent.loop import run_episode
from turnsmith.agent.prompts import Prompts
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig
from turnsmith.engines.base import Engine
from turnsmith.errors import SandboxError
from turnsmith.rewards.grading import Grader
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.types import Grade, Outcome, StopReason, Task, Trajectory

LOST = {
    StopReason.SANDBOX_FAILED: Outcome.SANDBOX_FAILED,
    StopReason.ENGINE_FAILED: Outcome.ENGINE_FAILED,
}
"""Endings after which there is nothing to grade."""


@dataclass(frozen=True)
class Rollout:
    """One rollout to be made."""

    trajectory_id: str
    task: Task
    layers: tuple[Path, ...]
    iteration: int
    seed: int


@dataclass(frozen=True)
class Bench:
    """What every rollout of a run works with."""

    engine: Engine
    provider: SandboxProvider
    grader: Grader
    renderer: ChatRenderer
    prompts: Prompts


async def play(rollout: Rollout, bench: Bench, agent: AgentConfig, demonstration: bool) -> Episode:
    """The episode in a sandbox of its own. A sandbox that does not start or cannot be set up leaves an episode without turns."""
    try:
        sandbox = await bench.provider.start(
            SandboxSpec(rollout.layers, rollout.task.workdir, image=rollout.task.image)
        )
    except SandboxError as error:
        return lost_episode(error, bench.engine.policy_version)
    try:
        await set_up(sandbox, rollout.task, rollout.layers)
        return await run_episode(
            rollout.task,
            bench.engine,
            sandbox,
            bench.renderer,
            bench.prompts,
            agent,
            episode_id=rollout.trajectory_id,
            seed=rollout.seed,
            demonstration=demonstration,
        )
    except SandboxError as error:
        return lost_episode(error, bench.engine.policy_version)
    finally:
        await sandbox.stop()


def lost_episode(error: SandboxError, policy_version: int) -> Episode:
    """What is left where nothing could start."""
    return Episode(
        token_ids=[],
        sampled=[],
        logprobs=[],
        turns=[],
        stop_reason=StopReason.SANDBOX_FAILED,
        prompt_tokens=0,
        patch="",
        policy_version=policy_version,
        duration_s=0.0,
        detail=str(error),
    )


async def grade_episode(episode: Episode, rollout: Rollout, bench: Bench, agent: AgentConfig) -> Grade:
    """The verdict on what the episode left."""
    if episode.stop_reason in LOST:
        return Grade(outcome=LOST[episode.stop_reason], detail=episode.detail)
    if episode.stop_reason is not StopReason.SUBMITTED and not agent.grade_unsubmitted:
        return Grade(outcome=Outcome.NOT_SUBMITTED, detail=f"ended by {episode.stop_reason}")
    return await bench.grader.grade(rollout.task, rollout.layers, episode.patch)


def to_trajectory(rollout: Rollout, episode: Episode, grade: Grade, isolation: str) -> Trajectory:
    """The record that stays."""
    return Trajectory(
        trajectory_id=rollout.trajectory_id,
        instance_id=rollout.task.instance_id,
        iteration=rollout.iteration,
        policy_version=episode.policy_version,
        seed=rollout.seed,
        token_ids=episode.token_ids,
        sampled=episode.sampled,
        logprobs=episode.logprobs,
        turns=episode.turns,
        stop_reason=episode.stop_reason,
        outcome=grade.outcome,
        patch=episode.patch,
        grade=grade,
        isolation=isolation,
        prompt_tokens=episode.prompt_tokens,
        duration_s=episode.duration_s,
        detail=episode.detail or grade.detail,
    )


def plan_rollouts(
    tasks: Sequence[tuple[Task, tuple[Path, ...]]], *, prefix: str, iteration: int, num_each: int, noise: str
) -> list[Rollout]:
    """`num_each` rollouts of each task, siblings side by side so that they share their prompt's computation.

    `noise` names the stream that their seeds come from: each task and each sibling has noise of its own.
    """
    return [
        Rollout(
            trajectory_id=f"{prefix}/{task.instance_id}/{index}",
            task=task,
            layers=layers,
            iteration=iteration,
            seed=draw_seed(f"{noise}/{task.instance_id}/{index}"),
        )
        for task, layers in tasks
        for index in range(num_each)
    ]


def draw_seed(name: str) -> int:
    """The seed that belongs to a name; 48 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
