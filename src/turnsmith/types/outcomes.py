"""How rollouts end, what follows from it, and what tests say of a patch, and an audit of the tests."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from turnsmith.types.records import Record


class StopReason(StrEnum):
    """Why a rollout ended. The value is also the metric key."""

    RUNNING = "running"
    """It has not."""
    SUBMITTED = "submitted"
    """The agent called `submit`."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached without a submit."""
    CONTEXT_FULL = "context_full"
    """The next turn would not fit into the context."""
    TIMEOUT = "timeout"
    """The agent's own commands used up the wall clock of the episode."""
    FORMAT_ERROR = "format_error"
    """Too many malformed turns in a row."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox failed; not the agent's doing."""
    ENGINE_FAILED = "engine_failed"
    """The engine failed; not the agent's doing."""
    STOPPED = "stopped"
    """An attempt of `solve` was stopped: by Ctrl-C, a budget that is spent, another that passed. `detail` says by what."""


class Outcome(StrEnum):
    """How a trajectory is judged. One row of `OUTCOMES` says what follows from it."""

    UNGRADED = "ungraded"
    """There is no verdict yet."""
    RESOLVED = "resolved"
    """All FAIL_TO_PASS and PASS_TO_PASS tests pass on the patch."""
    UNRESOLVED = "unresolved"
    """A patch was graded and at least one expected test did not pass."""
    EMPTY_PATCH = "empty_patch"
    """The agent changed nothing, or nothing that reaches the tests."""
    PATCH_INVALID = "patch_invalid"
    """The patch does not apply or breaks the patch policy."""
    TESTS_TIMED_OUT = "tests_timed_out"
    """The tests on the patch ran out of time; the policy's doing, since the gold patch fits."""
    TAMPERED = "tampered"
    """The report of the tests lied: a test of the grader's own ended otherwise than it must, or channels disagree."""
    NOT_SUBMITTED = "not_submitted"
    """Ended by a limit where only submitted work counts."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox of the rollout failed."""
    ENGINE_FAILED = "engine_failed"
    """The engine failed."""
    GRADER_FAILED = "grader_failed"
    """The grader itself failed."""


@dataclass(frozen=True)
class OutcomeRule:
    """What follows from an outcome."""

    in_loss: bool
    """Do its tokens train?"""
    in_group: bool
    """Does its reward count in the group's mean and standard deviation?"""
    retried: bool
    """Is the rollout tried again, within the retry budget?"""
    in_evaluation: bool
    """Does it count as an attempt in Pass@1?"""


_AGENT = OutcomeRule(in_loss=True, in_group=True, retried=False, in_evaluation=True)
_INFRASTRUCTURE = OutcomeRule(in_loss=False, in_group=False, retried=True, in_evaluation=False)

OUTCOMES: dict[Outcome, OutcomeRule] = dict.fromkeys(Outcome, _AGENT) | dict.fromkeys(
    (Outcome.UNGRADED, Outcome.SANDBOX_FAILED, Outcome.ENGINE_FAILED, Outcome.GRADER_FAILED), _INFRASTRUCTURE
)
"""The one table from ending to loss: what the agent caused scores and trains, what the infrastructure caused leaves no trace."""


class Audit(Record):
    """What came of looking for lies in a patch that resolves its task."""

    verdict: Literal["honest", "convicted", "inconclusive"]
    reason: str = ""
    """The lie, or why nothing can be said for certain; empty where the patch is honest."""
    num_renamed: int = 0
    """Expected test functions that were run under random names."""
    num_mutants: int = 0
    """Mutants of expected tests that the gold patch kills."""
    num_killed: int = 0
    """Of those, how many the patch kills: all, where it is honest."""
    duration_s: float = 0.0


class Grade(Record):
    """The verdict of the tests on one patch."""

    outcome: Outcome
    """RESOLVED, UNRESOLVED, EMPTY_PATCH, PATCH_INVALID, TESTS_TIMED_OUT, TAMPERED, or GRADER_FAILED."""
    statuses: dict[str, str] = {}
    """Status of each expected test: `passed`, `failed`, `error`, `skipped`, `missing`."""
    duration_s: float = 0.0
    """Seconds that the grading took."""
    shared: bool = False
    """True where the verdict of an identical patch of the same task was used again."""
    isolation: str = ""
    """Tier of `Isolation` of the sandbox in which the tests ran."""
    flags: list[str] = []
    """Exploit contact: what of the patch was left out or seen to reach for the grader, e.g. `test-infrastructure`, `sentinel`."""
    detail: str = ""
    """One line for people: which tests failed, or what broke."""
    audit: Audit | None = None
    """None where the patch was not audited."""

    @property
    def resolved(self) -> bool:
        return self.outcome is Outcome.RESOLVED
