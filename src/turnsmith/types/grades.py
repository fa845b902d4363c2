"""What tests say of a patch, and what an audit says of the tests."""

from typing import Literal

from turnsmith.types.outcomes import Outcome
from turnsmith.types.records import Record


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
