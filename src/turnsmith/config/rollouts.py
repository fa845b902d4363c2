"""Sections `[rollouts]` and `[audit]`: scheduling of episodes, and checks of their rewards."""

from typing import Literal

from pydantic import Field

from turnsmith.config.section import Section


class RolloutConfig(Section):
    """Scheduling of episodes and gradings."""

    concurrency: int = Field(64, ge=1)
    """Number of episodes that run concurrently, and thus the limit of concurrent requests to a model server."""
    grading_workers: int = Field(2, ge=1)
    """Number of gradings that run concurrently."""
    tests_timeout_s: float = Field(1_800.0, gt=0)
    """Longest time for the tests of one patch, in seconds. A known time of the gold patch shortens it (docs/grading.md)."""


class AuditConfig(Section):
    """Audit of resolved patches for tampering with the tests."""

    when: Literal["off", "suspicious", "all"] = "suspicious"
    """Resolved patches to audit before training: none, those with code that may affect tests (`suspicious`), or all."""
    rate: float = Field(0.05, ge=0, le=1)
    """Fraction of unsuspicious resolved patches to audit. A failed audit makes it 1 until an iteration has no failed audit."""
