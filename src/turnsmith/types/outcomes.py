"""Stop reasons and outcomes of rollouts, and the records of grading and audit."""

import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import field_validator

from turnsmith.types.records import Record


class StopReason(StrEnum):
    """Reason why a rollout ended; its value ends the name of the metric that counts such rollouts, `stop_reason/timeout`."""

    RUNNING = "running"
    SUBMITTED = "submitted"
    """The agent called `submit`."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached without a submit."""
    CONTEXT_FULL = "context_full"
    """The next turn would not fit into the context."""
    TIMEOUT = "timeout"
    """The agent's commands used up the wall-clock limit of the episode."""
    FORMAT_ERROR = "format_error"
    """Too many malformed turns in a row."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox failed, through no fault of the agent."""
    ENGINE_FAILED = "engine_failed"
    """The engine failed, through no fault of the agent."""
    STOPPED = "stopped"
    """`solve` stopped the attempt: Ctrl-C was pressed, the budget was spent, or another attempt passed. See `detail`."""


class Outcome(StrEnum):
    """Verdict on a trajectory. `OUTCOMES` says how each outcome counts in training and evaluation."""

    UNGRADED = "ungraded"
    """There is no verdict yet."""
    RESOLVED = "resolved"
    """All FAIL_TO_PASS and PASS_TO_PASS tests pass on the patch."""
    UNRESOLVED = "unresolved"
    """A patch was graded and at least one expected test did not pass."""
    EMPTY_PATCH = "empty_patch"
    """The agent changed nothing that affects the tests."""
    PATCH_INVALID = "patch_invalid"
    """The patch does not apply, or contains a change that patches may not make."""
    TESTS_TIMED_OUT = "tests_timed_out"
    """The tests ran out of time on the patch; this counts against the policy, since the gold patch is fast enough."""
    TAMPERED = "tampered"
    """Tampering with the tests: a wrong result of a sentinel test, contradictory or forged test reports, or a failed audit."""
    NOT_SUBMITTED = "not_submitted"
    """A limit ended the rollout before the agent submitted; only in runs of older versions."""
    SANDBOX_FAILED = "sandbox_failed"
    ENGINE_FAILED = "engine_failed"
    GRADER_FAILED = "grader_failed"


@dataclass(frozen=True)
class OutcomeRule:
    """Rule for trajectories with one outcome: if they count in loss, group statistics, retries and evaluation."""

    in_loss: bool
    """True if the trajectory's sampled tokens are used for training."""
    in_group: bool
    """True if the trajectory's reward enters the group's mean and standard deviation."""
    retried: bool
    """True if the rollout is retried, within the retry budget."""
    in_evaluation: bool
    """True if the trajectory counts as an attempt in Pass@1."""


_AGENT = OutcomeRule(in_loss=True, in_group=True, retried=False, in_evaluation=True)
_INFRASTRUCTURE = OutcomeRule(in_loss=False, in_group=False, retried=True, in_evaluation=False)

OUTCOMES: dict[Outcome, OutcomeRule] = dict.fromkeys(Outcome, _AGENT) | dict.fromkeys(
    (Outcome.UNGRADED, Outcome.SANDBOX_FAILED, Outcome.ENGINE_FAILED, Outcome.GRADER_FAILED), _INFRASTRUCTURE
)
"""Rule of each outcome. Failures of the agent count in rewards and training; failures of sandbox, engine or grader do not."""


class Audit(Record):
    """Result of auditing a patch that resolves its task."""

    verdict: Literal["honest", "failed", "inconclusive"]
    reason: str = ""
    """Evidence of tampering, or the cause of an inconclusive audit; empty if the patch is honest."""
    num_renamed: int = 0
    """Number of expected test functions that the audit ran under random names, so that the patch cannot recognise them."""
    num_mutants: int = 0
    """Number of changed copies (mutants) of expected tests that fail with the gold patch."""
    num_killed: int = 0
    """Number of mutants that fail with the gold patch and the audited patch; equal to `num_mutants` if the patch is honest."""
    duration_s: float = 0.0

    @field_validator("verdict", mode="before")
    @classmethod
    def _rename_old_verdict(cls, verdict: object) -> object:
        """Accept `convicted`, which version 0.1 stored, with a deprecation warning."""
        if verdict != "convicted":
            return verdict
        warnings.warn("the audit verdict `convicted` is deprecated: it is now `failed`", FutureWarning, stacklevel=2)
        return "failed"

    @property
    def has_failed(self) -> bool:
        return self.verdict == "failed"


class AuditedPatch(Record):
    """Result of the audit of one patch for a task."""

    instance_id: str
    digest: str
    """SHA-256 of the patch."""
    audit: Audit


class Grade(Record):
    """Test verdict on one patch."""

    outcome: Outcome
    """RESOLVED, UNRESOLVED, EMPTY_PATCH, PATCH_INVALID, TESTS_TIMED_OUT, TAMPERED, or GRADER_FAILED."""
    statuses: dict[str, str] = {}
    """Status of each expected test: `passed`, `failed`, `error`, `skipped`, `missing`."""
    duration_s: float = 0.0
    shared: bool = False
    """True if the verdict was reused from an identical patch of the same task."""
    isolation: str = ""
    """`Isolation` tier of the sandbox that ran the tests."""
    flags: list[str] = []
    """Suspicious findings in the patch, e.g. `test-infrastructure`, `sentinel`."""
    detail: str = ""
    """One line for people: the failed tests, or the fault that stopped the grading."""
    audit: Audit | None = None
    """Result of the audit; None if the patch was not audited."""

    @property
    def resolved(self) -> bool:
        return self.outcome is Outcome.RESOLVED
