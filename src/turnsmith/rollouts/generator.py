"""The generator: makes rollouts, many at once, and writes each to the journal as soon as it is done.

Episodes are independent coroutines in bounded stages, never lock step: a sandbox and an episode while a slot is free, then the
verdict, while the slot already serves the next episode.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from turnsmith.agent.episode import Episode
from turnsmith.config import AgentConfig, RolloutConfig
from turnsmith.errors import InfrastructureStorm
from turnsmith.rollouts.rollout import Bench, Rollout, judge, play, to_trajectory
from turnsmith.runs import append_record, read_records
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Outcome, Trajectory


class LocalGenerator:
    """Makes rollouts in this process."""

    def __init__(self, bench: Bench, config: RolloutConfig, progress: Progress) -> None:
        self._bench = bench
        self._config = config
        self._progress = progress
        self._free_slots = asyncio.Semaphore(config.concurrency)

    async def collect(
        self, rollouts: Sequence[Rollout], agent: AgentConfig, journal: Path, *, label: str, demonstration: bool = False
    ) -> list[Trajectory]:
        """All rollouts, in their order; those that the journal already holds are not made again.

        Raises InfrastructureStorm where too many are lost to the infrastructure, and UsageError from the agent.
        """
        done = {trajectory.trajectory_id: trajectory for trajectory in read_records(journal, Trajectory)}
        missing = [rollout for rollout in rollouts if rollout.trajectory_id not in done]
        self._progress.begin(label, len(rollouts))
        self._progress.advance(label, len(rollouts) - len(missing))
        outcomes = Counter(trajectory.outcome for trajectory in done.values())

        async def make(rollout: Rollout) -> None:
            trajectory = await self._make(rollout, agent, demonstration)
            append_record(journal, trajectory)
            done[rollout.trajectory_id] = trajectory
            outcomes[trajectory.outcome] += 1
            self._progress.advance(label, note=f"resolved {outcomes[Outcome.RESOLVED]} of {outcomes.total()}")

        async with asyncio.TaskGroup() as group:
            for rollout in missing:
                group.create_task(make(rollout))
        self._bench.grader.forget()
        self._progress.end(label)
        trajectories = [done[rollout.trajectory_id] for rollout in rollouts]
        self._check_infrastructure(trajectories)
        return trajectories

    async def _make(self, rollout: Rollout, agent: AgentConfig, demonstration: bool) -> Trajectory:
        """One rollout, tried again within the budget where its outcome says so."""
        for _ in range(self._config.retries):
            trajectory = await self._try(rollout, agent, demonstration)
            if not OUTCOMES[trajectory.outcome].retried:
                return trajectory
        return await self._try(rollout, agent, demonstration)

    async def _try(self, rollout: Rollout, agent: AgentConfig, demonstration: bool) -> Trajectory:
        episode = await self._play(rollout, agent, demonstration)
        grade = await judge(episode, rollout, self._bench, agent)
        return to_trajectory(rollout, episode, grade, self._bench.provider.isolation)

    async def _play(self, rollout: Rollout, agent: AgentConfig, demonstration: bool) -> Episode:
        async with self._free_slots:
            return await play(rollout, self._bench, agent, demonstration)

    def _check_infrastructure(self, trajectories: Sequence[Trajectory]) -> None:
        lost = [trajectory for trajectory in trajectories if OUTCOMES[trajectory.outcome].retried]
        if len(lost) > self._config.max_infrastructure_share * len(trajectories):
            raise InfrastructureStorm(
                f"{len(lost)} of {len(trajectories)} rollouts were lost to the infrastructure "
                f"(the last: {lost[-1].outcome}, {lost[-1].detail}): repair it, then resume the run"
            )
