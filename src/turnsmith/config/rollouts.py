"""Sections `[rollouts]` and `[audit]`: scheduling of episodes, and checks of their rewards."""

from typing import Literal

from pydantic import Field

from turnsmith.config.section import Section


class RolloutConfig(Section):
    """Scheduling of episodes and gradings."""

    concurrency: int = Field(64, ge=1)
    """Episodes that run concurrently; with an endpoint also the most concurrent requests."""
    retries: int = Field(2, ge=0)
    """Retries of a rollout after an infrastructure failure."""
    grading_workers: int = Field(2, ge=1)
    """Gradings that run concurrently."""
    tests_timeout_s: float = Field(1_800.0, gt=0)
    """Seconds that the tests of one patch may take; less if the gold patch's time is known (docs/grading.md)."""


class AuditConfig(Section):
    """Audit of resolved patches for tampering with the tests."""

    when: Literal["off", "suspicious", "all"] = "suspicious"
    """Resolved patches to audit before RFT and RL train on them; evaluation audits none."""
    rate: float = Field(0.05, ge=0, le=1)
    """Fraction of unsuspicious patches that are audited too; 1 after a failed audit, until an iteration has none."""
