"""Audits of resolved patches before they are rewarded, and metrics of suspicious patches.

Contact metrics count patches that touch files of the tests or try to influence the grader. The metrics are shown to people
and never used as a reward.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turnsmith.audit.auditor import Auditor
from turnsmith.audit.screening import find_suspicions
from turnsmith.config import AuditConfig
from turnsmith.git.patch_policy import digest_patch
from turnsmith.rollouts.rollout import Rollout, draw_seed
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Audit, Outcome, Trajectory

RISE = 0.05
"""Smallest reported increase, between two iterations, of the share of flagged or of tampered trajectories."""


@dataclass
class AuditScheduler:
    """Auditor of suspicious patches and of a random share of the other patches; after a failed audit, of all patches."""

    auditor: Auditor
    config: AuditConfig
    progress: Progress
    seed: int
    is_alarmed: bool = False
    """True if a patch failed its audit in this or the previous iteration; then all resolved patches are audited."""
    audits: dict[tuple[str, str], asyncio.Task[Audit]] = field(default_factory=dict)
    """Audits by (task id, patch), so that identical patches are audited once."""

    def recall(self, trajectories: Iterable[Trajectory]) -> None:
        """Set `is_alarmed`, so that all resolved patches are audited, if one of these earlier trajectories failed its audit."""
        self.is_alarmed = self.is_alarmed or any(audit.has_failed for audit in list_audits(trajectories))

    async def inspect(self, trajectory: Trajectory, rollout: Rollout) -> Trajectory:
        """Audit a resolved patch that `_is_chosen` selects; return the trajectory with the audit, as `TAMPERED` if it failed."""
        if not trajectory.resolved or trajectory.grade is None or not await self._is_chosen(trajectory, rollout):
            return trajectory
        key = rollout.tree.instance_id, trajectory.patch
        if key not in self.audits:
            auditing = self.auditor.audit(rollout.tree, trajectory.patch)
            self.audits[key] = asyncio.create_task(auditing)
        audit = await asyncio.shield(self.audits[key])
        grade = trajectory.grade.model_copy(update={"audit": audit})
        if not audit.has_failed:
            return trajectory.grow(grade=grade)
        if not self.is_alarmed:
            self.progress.log(
                f"warning: {trajectory.trajectory_id} failed the audit: {audit.reason}; all resolved patches are audited "
                "until an iteration has no failed audit"
            )
        self.is_alarmed = True
        tampered = {"outcome": Outcome.TAMPERED, "flags": [*grade.flags, "audit"], "detail": audit.reason}
        return trajectory.grow(outcome=Outcome.TAMPERED, grade=grade.model_copy(update=tampered), detail=audit.reason)

    def is_overdue(self, trajectory: Trajectory) -> bool:
        """Return True if this trajectory was rewarded without an audit, and a failed audit now requires one (`is_alarmed`)."""
        grade = trajectory.grade
        return self.is_alarmed and trajectory.resolved and grade is not None and grade.audit is None

    async def _is_chosen(self, trajectory: Trajectory, rollout: Rollout) -> bool:
        """Return True if a trajectory's patch is to be audited. Identical patches of a group get the same answer."""
        if self.config.when == "all" or self.is_alarmed:
            return True
        if await asyncio.to_thread(find_suspicions, trajectory.patch, rollout.tree.layers):
            return True
        digest = digest_patch(trajectory.patch)
        name = f"{self.seed}/{trajectory.group_id}/{digest}"
        return draw_seed(name) < self.config.rate * 2**48


def list_audits(trajectories: Iterable[Trajectory]) -> list[Audit]:
    """List the audits of those trajectories whose patch was audited."""
    return [t.grade.audit for t in trajectories if t.grade and t.grade.audit]


def describe_audits(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return audit metrics of an iteration: numbers of audited, failed and inconclusive patches."""
    verdicts = Counter(audit.verdict for audit in list_audits(trajectories))
    return {
        "audit/audited": float(verdicts.total()),
        "audit/failed": float(verdicts["failed"]),
        "audit/inconclusive": float(verdicts["inconclusive"]),
    }


def describe_contact(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return an iteration's `contact/` metrics: shares of flagged and of tampered trajectories, and trajectories per flag."""
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
    """List `contact/` rates that rose while the mean reward rose as well: the policy may have learned to exploit the grader."""
    if now["reward/mean"] <= before.get("reward/mean", float("inf")):
        return []
    shares = [name for name in now if name.startswith("contact/") and name.endswith("_rate")]
    return [name for name in shares if now[name] - before.get(name, now[name]) >= RISE]
