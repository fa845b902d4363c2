"""The generator: makes rollouts, many at once, and writes each to the journal as soon as it is done.

Episodes are independent coroutines in bounded stages, never lock step: a sandbox and an episode while a slot is free, then the
verdict, while the slot already serves the next episode.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from turnsmith.config import AgentConfig, RolloutConfig
from turnsmith.errors import InfrastructureStorm
from turnsmith.journals import append_trajectory, read_trajectories
from turnsmith.rollouts.inspection import Inspector
from turnsmith.rollouts.rollout import LOST, Harness, Rollout, grade, play
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Outcome, Trajectory

T = TypeVar("T")


class LocalGenerator:
    """Makes rollouts in this process."""

    def __init__(self, harness: Harness, config: RolloutConfig, progress: Progress) -> None:
        self._harness = harness
        self._config = config
        self._progress = progress
        self._free_slots = asyncio.Semaphore(config.concurrency)

    async def collect(
        self,
        rollouts: Sequence[Rollout],
        agent: AgentConfig,
        journal: Path,
        *,
        label: str,
        demonstration: bool = False,
        inspector: Inspector | None = None,
    ) -> list[Trajectory]:
        """All rollouts, in their order; those that the journal already holds are not made again, unless they were lost.

        An inspector looks into what resolves its task before it is written down.
        Raises InfrastructureStorm where too many are lost to the infrastructure, and UsageError from the agent.
        """
        done = {t.trajectory_id: t for t in read_trajectories(journal) if not OUTCOMES[t.outcome].retried}
        if inspector:
            inspector.recall(done.values())
        missing = [rollout for rollout in rollouts if rollout.trajectory.trajectory_id not in done]
        self._progress.begin(label, len(rollouts))
        self._progress.advance(label, len(rollouts) - len(missing))
        outcomes = Counter(trajectory.outcome for trajectory in done.values())

        async def make(rollout: Rollout) -> None:
            made = await self._make(rollout, agent, demonstration)
            trajectory = await inspector.inspect(made, rollout) if inspector else made
            append_trajectory(journal, trajectory)
            done[rollout.trajectory.trajectory_id] = trajectory
            outcomes[trajectory.outcome] += 1
            self._progress.advance(label, note=f"resolved {outcomes[Outcome.RESOLVED]} of {outcomes.total()}")

        async with asyncio.TaskGroup() as group:
            for rollout in missing:
                group.create_task(make(rollout))
        self._harness.grader.forget()
        self._progress.end(label)
        trajectories = [done[rollout.trajectory.trajectory_id] for rollout in rollouts]
        self._check_infrastructure(trajectories)
        return trajectories

    async def _make(self, rollout: Rollout, agent: AgentConfig, demonstration: bool) -> Trajectory:
        """One rollout; what the infrastructure broke, the episode or its grading, is tried again within the budget."""
        played = await persist(
            lambda: self._play(rollout, agent, demonstration),
            is_lost=lambda trajectory: trajectory.stop_reason in LOST,
            retries=self._config.retries,
        )
        return await persist(
            lambda: grade(played, rollout, self._harness, agent),
            is_lost=lambda trajectory: trajectory.stop_reason not in LOST and OUTCOMES[trajectory.outcome].retried,
            retries=self._config.retries,
        )

    async def _play(self, rollout: Rollout, agent: AgentConfig, demonstration: bool) -> Trajectory:
        async with self._free_slots:
            return await play(rollout, self._harness, agent, demonstration)

    def _check_infrastructure(self, trajectories: Sequence[Trajectory]) -> None:
        lost = [trajectory for trajectory in trajectories if OUTCOMES[trajectory.outcome].retried]
        if lost and (
            len(lost) > self._config.max_infrastructure_share * len(trajectories) or len(lost) == len(trajectories)
        ):
            raise InfrastructureStorm(
                f"{len(lost)} of {len(trajectories)} rollouts were lost to the infrastructure "
                f"(the last: {lost[-1].outcome}, {lost[-1].detail}): repair it, then resume the run"
            )


async def persist(attempt: Callable[[], Awaitable[T]], is_lost: Callable[[T], bool], retries: int) -> T:
    """The first result that was not lost to the infrastructure, or the last one."""
    for _ in range(retries):
        result = await attempt()
        if not is_lost(result):
            return result
    return await attempt()
