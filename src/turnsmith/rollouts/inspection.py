"""Audits in training: resolved patches that are looked into before they are paid, and what follows from a conviction."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from turnsmith.audit.auditor import Auditor
from turnsmith.audit.screening import find_suspicions
from turnsmith.config import AuditConfig
from turnsmith.rollouts.rollout import Rollout, draw_seed
from turnsmith.tracking import Progress
from turnsmith.types import Audit, Outcome, Trajectory

LIED = "audit"
"""Flag of a patch that was convicted."""


class Inspector:
    """Audits the suspicious patches of one iteration and a random share of the others; all of them once one is convicted."""

    def __init__(
        self, auditor: Auditor, config: AuditConfig, progress: Progress, *, seed: int, is_alarmed: bool = False
    ) -> None:
        self._auditor = auditor
        self._config = config
        self._progress = progress
        self._seed = seed
        self._is_alarmed = is_alarmed
        self._audits: dict[tuple[str, str], asyncio.Task[Audit]] = {}

    def recall(self, trajectories: Iterable[Trajectory]) -> None:
        """Take note of what the iteration already holds."""
        self._is_alarmed = self._is_alarmed or any(map(is_convicted, trajectories))

    async def inspect(self, trajectory: Trajectory, rollout: Rollout) -> Trajectory:
        """The trajectory as it is paid: a patch that is convicted has tampered. Identical patches share one audit."""
        if not trajectory.resolved or trajectory.grade is None or not self._is_chosen(trajectory):
            return trajectory
        key = rollout.task.instance_id, trajectory.patch
        if key not in self._audits:
            auditing = self._auditor.audit(rollout.task, rollout.layers, trajectory.patch)
            self._audits[key] = asyncio.create_task(auditing)
        audit = await asyncio.shield(self._audits[key])
        grade = trajectory.grade.model_copy(update={"audit": audit})
        if audit.verdict != "convicted":
            return trajectory.grow(grade=grade)
        self._raise_alarm(trajectory, audit)
        lied = {"outcome": Outcome.TAMPERED, "flags": [*grade.flags, LIED], "detail": audit.reason}
        return trajectory.grow(outcome=Outcome.TAMPERED, grade=grade.model_copy(update=lied), detail=audit.reason)

    def _is_chosen(self, trajectory: Trajectory) -> bool:
        """By the patch, not by the trajectory: identical ones are all looked into, or none."""
        if self._config.when == "all" or self._is_alarmed or find_suspicions(trajectory.patch):
            return True
        digest = hashlib.sha256(trajectory.patch.encode(errors="surrogatepass")).hexdigest()
        name = f"{self._seed}/{trajectory.group_id}/{digest}"
        return draw_seed(name) < self._config.rate * 2**48

    def _raise_alarm(self, trajectory: Trajectory, audit: Audit) -> None:
        if not self._is_alarmed:
            self._progress.say(
                f"warning: {trajectory.trajectory_id} is convicted: {audit.reason}; every patch that resolves its task is "
                "audited until an iteration is clean"
            )
        self._is_alarmed = True


def is_convicted(trajectory: Trajectory) -> bool:
    audit = trajectory.grade and trajectory.grade.audit
    return bool(audit and audit.verdict == "convicted")


def describe_audits(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Metrics of an iteration: how many patches were audited, convicted, and neither cleared nor convicted."""
    audits = [trajectory.grade.audit for trajectory in trajectories if trajectory.grade and trajectory.grade.audit]
    verdicts = Counter(audit.verdict for audit in audits)
    return {
        "audit/audited": float(len(audits)),
        "audit/convicted": float(verdicts["convicted"]),
        "audit/inconclusive": float(verdicts["inconclusive"]),
    }
