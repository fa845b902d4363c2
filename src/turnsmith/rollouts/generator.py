"""Generator that runs many rollouts concurrently and writes each to a journal file when it is done.

Episodes are coroutines; a limited number run at once, each in a sandbox of its own. A finished episode's patch is graded in
another sandbox, while the next episode starts. A fault of sandbox or engine is recorded as the rollout's outcome.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from turnsmith.agent.dialogues.base import DialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.config import AgentConfig, RolloutConfig
from turnsmith.errors import SandboxError, TooManyFailures
from turnsmith.grading.grading import Grader
from turnsmith.rollouts.inspection import AuditScheduler
from turnsmith.rollouts.rollout import Rollout
from turnsmith.runs.journal import append_start, append_trajectory, read_trajectories, started_file
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up_for_agent
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import OUTCOMES, Grade, Outcome, StopReason, Trajectory

T = TypeVar("T")

RETRIES = 2
"""Retries of an episode or grading after an infrastructure failure."""
MAX_INFRASTRUCTURE_SHARE = 0.2
"""Largest share of an iteration's rollouts that may fail by faults of sandboxes or engine before the run stops."""
LOST = (StopReason.SANDBOX_FAILED, StopReason.ENGINE_FAILED)
"""Stop reasons of episodes that a fault of sandbox or engine ended, without a patch. Their outcomes have the same names."""


@dataclass
class Generator:
    """Generator of rollouts, which runs many episodes concurrently in this process."""

    dialogues: DialogueFactory
    provider: SandboxProvider
    grader: Grader
    scaffold: Scaffold
    config: RolloutConfig
    progress: Progress
    num_sampled: int = 0
    """Number of tokens that the policy sampled in the rollouts finished so far."""

    def __post_init__(self) -> None:
        self._free_slots = asyncio.Semaphore(self.config.concurrency)

    async def collect(
        self,
        rollouts: Sequence[Rollout],
        agent: AgentConfig,
        journal: Path,
        *,
        label: str,
        demonstration: bool = False,
        inspector: AuditScheduler | None = None,
    ) -> list[Trajectory]:
        """Run the rollouts that the journal lacks; return all trajectories in the order of `rollouts`.

        Rollouts that failed by faults of sandbox or engine run again. An inspector audits the resolved patches that it chooses
        before they are written and, after a failed audit, those that were written without one. Raises TooManyFailures if
        too many rollouts fail by such faults.
        """
        done = {t.trajectory_id: t for t in read_trajectories(journal) if not OUTCOMES[t.outcome].retried}
        if inspector:
            inspector.recall(done.values())
        missing = [rollout for rollout in rollouts if rollout.trajectory.trajectory_id not in done]
        outcomes = Counter(trajectory.outcome for trajectory in done.values())
        started_file(journal).unlink(missing_ok=True)
        journal.parent.mkdir(parents=True, exist_ok=True)
        num_before, begun = self.num_sampled, monotonic()

        async def make(rollout: Rollout) -> str:
            made = await self._make(rollout, agent, demonstration, journal)
            trajectory = await inspector.inspect(made, rollout) if inspector else made
            append_trajectory(journal, trajectory)
            done[rollout.trajectory.trajectory_id] = trajectory
            outcomes[trajectory.outcome] += 1
            self.num_sampled += trajectory.num_sampled
            speed = f"{(self.num_sampled - num_before) / (monotonic() - begun):,.0f} tokens/s"
            remarks = [f"resolved {outcomes[Outcome.RESOLVED]} of {outcomes.total()}", speed, self.dialogues.status()]
            return ", ".join(filter(None, remarks))

        await for_each(missing, make, self.progress, label, num_done=len(rollouts) - len(missing), describe=str)
        started_file(journal).unlink(missing_ok=True)
        self.grader.forget()
        if inspector:
            await self._inspect_overdue(rollouts, done, journal, inspector)
        trajectories = [done[rollout.trajectory.trajectory_id] for rollout in rollouts]
        self._check_infrastructure(trajectories)
        return trajectories

    async def _inspect_overdue(
        self, rollouts: Sequence[Rollout], done: dict[str, Trajectory], journal: Path, inspector: AuditScheduler
    ) -> None:
        """Audit resolved patches that had no audit when another patch failed its audit; append the results to the journal."""
        overdue = [rollout for rollout in rollouts if inspector.is_overdue(done[rollout.trajectory.trajectory_id])]
        if not overdue:
            return

        async def inspect(rollout: Rollout) -> str:
            name = rollout.trajectory.trajectory_id
            done[name] = await inspector.inspect(done[name], rollout)
            append_trajectory(journal, done[name])
            return done[name].outcome

        await for_each(overdue, inspect, self.progress, "auditing earlier rewarded patches", describe=str)

    async def _make(self, rollout: Rollout, agent: AgentConfig, demonstration: bool, journal: Path) -> Trajectory:
        """Run and grade one rollout. Retry the episode or the grading after faults of sandbox or engine."""
        played = await retry_lost(
            lambda: self._play(rollout, agent, demonstration, journal),
            is_lost=lambda trajectory: trajectory.stop_reason in LOST,
        )
        return await retry_lost(
            lambda: self._grade(played, rollout),
            is_lost=lambda trajectory: trajectory.stop_reason not in LOST and OUTCOMES[trajectory.outcome].retried,
        )

    async def _play(self, rollout: Rollout, agent: AgentConfig, demonstration: bool, journal: Path) -> Trajectory:
        """Run the episode in a new sandbox. If the sandbox cannot be started or set up, return a trajectory without turns."""
        tree = rollout.tree
        try:
            async with self._free_slots, started(self.provider, SandboxSpec.of(tree)) as sandbox:
                append_start(journal, rollout.trajectory)
                await set_up_for_agent(sandbox, tree)
                dialogue = self.dialogues.open(rollout.trajectory, agent, rollout.decoding)
                episode = Episode(rollout.trajectory, tree.task, dialogue, sandbox, self.scaffold, agent, demonstration)
                return await episode.play()
        except SandboxError as error:
            return rollout.trajectory.grow(stop_reason=StopReason.SANDBOX_FAILED, detail=str(error))

    async def _grade(self, trajectory: Trajectory, rollout: Rollout) -> Trajectory:
        """Grade the episode's patch; an episode that a fault of sandbox or engine ended gets its outcome without grading."""
        ending = trajectory.stop_reason
        if ending in LOST:
            verdict = Grade(outcome=Outcome(ending.value), detail=trajectory.detail)
        else:
            verdict = await self.grader.grade(rollout.tree, trajectory.patch)
        return trajectory.grow(grade=verdict, outcome=verdict.outcome, detail=trajectory.detail or verdict.detail)

    def _check_infrastructure(self, trajectories: Sequence[Trajectory]) -> None:
        lost = [trajectory for trajectory in trajectories if OUTCOMES[trajectory.outcome].retried]
        num, total = len(lost), len(trajectories)
        if lost and (num > MAX_INFRASTRUCTURE_SHARE * total or num == total):
            raise TooManyFailures(
                f"{num} of {total} rollouts were lost to faults of sandboxes or engine "
                f"(the last: {lost[-1].outcome}, {lost[-1].detail}): repair the cause, then resume the run"
            )


async def retry_lost(
    attempt: Callable[[], Awaitable[T]], is_lost: Callable[[T], bool], retries: int | None = None
) -> T:
    """Call `attempt` until `is_lost` is False for its result, with at most `retries` (`RETRIES`) retries; return the last."""
    for _ in range(RETRIES if retries is None else retries):
        result = await attempt()
        if not is_lost(result):
            return result
    return await attempt()
