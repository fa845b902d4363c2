"""Lies in training: resolved patches that are audited before they are paid, what follows from a conviction, and exploit contact.

Exploit contact is how often patches come near what they should not touch. It is for people and their trends, never a reward.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turnsmith.audit.auditor import Auditor
from turnsmith.audit.screening import find_suspicions
from turnsmith.config import AuditConfig
from turnsmith.rewards.patches import digest_patch
from turnsmith.rollouts.rollout import Rollout, draw_seed
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Audit, Outcome, Trajectory

RISE = 0.05
"""A share that grows by this much is more than the noise of an iteration."""


@dataclass
class Inspector:
    """Audits the suspicious patches of one iteration and a random share of the others; all of them once one has failed."""

    auditor: Auditor
    config: AuditConfig
    progress: Progress
    seed: int
    is_alarmed: bool = False
    """True where a patch was convicted, in this iteration or the one before."""
    audits: dict[tuple[str, str], asyncio.Task[Audit]] = field(default_factory=dict)
    """By task and patch: identical ones share one."""

    def recall(self, trajectories: Iterable[Trajectory]) -> None:
        """Take note of what the iteration already holds."""
        self.is_alarmed = self.is_alarmed or any(audit.verdict == "convicted" for audit in list_audits(trajectories))

    async def inspect(self, trajectory: Trajectory, rollout: Rollout) -> Trajectory:
        """Return the trajectory as it is paid: a patch that fails the audit has tampered."""
        if not trajectory.resolved or trajectory.grade is None or not await self._is_chosen(trajectory, rollout):
            return trajectory
        key = rollout.task.instance_id, trajectory.patch
        if key not in self.audits:
            auditing = self.auditor.audit(rollout.task, rollout.layers, trajectory.patch)
            self.audits[key] = asyncio.create_task(auditing)
        audit = await asyncio.shield(self.audits[key])
        grade = trajectory.grade.model_copy(update={"audit": audit})
        if audit.verdict != "convicted":
            return trajectory.grow(grade=grade)
        if not self.is_alarmed:
            self.progress.say(
                f"warning: {trajectory.trajectory_id} failed the audit: {audit.reason}; every patch that resolves its task is "
                "audited until an iteration is clean"
            )
        self.is_alarmed = True
        lied = {"outcome": Outcome.TAMPERED, "flags": [*grade.flags, "audit"], "detail": audit.reason}
        return trajectory.grow(outcome=Outcome.TAMPERED, grade=grade.model_copy(update=lied), detail=audit.reason)

    def is_overdue(self, trajectory: Trajectory) -> bool:
        """Was it paid without an audit before another patch of the iteration failed its own?"""
        grade = trajectory.grade
        return self.is_alarmed and trajectory.resolved and grade is not None and grade.audit is None

    async def _is_chosen(self, trajectory: Trajectory, rollout: Rollout) -> bool:
        """Choose by the patch, not by the trajectory: identical patches are all audited, or none."""
        if self.config.when == "all" or self.is_alarmed:
            return True
        if await asyncio.to_thread(find_suspicions, trajectory.patch, rollout.layers):
            return True
        digest = digest_patch(trajectory.patch)
        name = f"{self.seed}/{trajectory.group_id}/{digest}"
        return draw_seed(name) < self.config.rate * 2**48


def list_audits(trajectories: Iterable[Trajectory]) -> list[Audit]:
    """Those that were made."""
    return [t.grade.audit for t in trajectories if t.grade and t.grade.audit]


def describe_audits(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Metrics of an iteration: how many patches were audited, convicted, and neither cleared nor convicted."""
    verdicts = Counter(audit.verdict for audit in list_audits(trajectories))
    return {
        "audit/audited": float(verdicts.total()),
        "audit/convicted": float(verdicts["convicted"]),
        "audit/inconclusive": float(verdicts["inconclusive"]),
    }


def describe_contact(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Metrics of an iteration: shares of the trajectories that count, and how many of them have each flag of the grader."""
    counted = [t for t in trajectories if OUTCOMES[t.outcome].in_group]
    flagged = [set(t.grade.flags) for t in counted if t.grade and t.grade.flags]
    num = len(counted) or 1
    flags = Counter(f"contact/flag/{name}" for names in flagged for name in names)
    return {
        "contact/flagged_rate": len(flagged) / num,
        "contact/tampered_rate": sum(t.outcome is Outcome.TAMPERED for t in counted) / num,
        **{name: float(count) for name, count in sorted(flags.items())},
    }


def rises_with_reward(before: dict[str, float], now: dict[str, float]) -> list[str]:
    """Shares of contact that grew together with the reward: what is being learned may be the grader."""
    if now["reward/mean"] <= before.get("reward/mean", float("inf")):
        return []
    shares = [name for name in now if name.startswith("contact/") and name.endswith("_rate")]
    return [name for name in shares if now[name] - before.get(name, now[name]) >= RISE]
