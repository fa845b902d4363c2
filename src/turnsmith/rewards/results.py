"""What a log says of a test, and which of two things it says counts."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TestResult:
    """What the log says of one test."""

    __test__ = False  # pytest would take the name for a test class

    status: str
    """`passed`, `xfailed`, `xpassed`, `skipped`, `failed` or `error`."""
    message: str = ""
    """First line of the failure, e.g. `AssertionError: assert 3 == 4`; empty for a pass."""


STATUSES = {
    "PASSED": "passed",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "SKIPPED": "skipped",
    "FAILED": "failed",
    "ERROR": "error",
}
"""Words of pytest, and what they mean."""
SEVERITY = list(STATUSES.values())
"""From best to worst."""


def keep_worst(found: Iterable[tuple[str, TestResult]]) -> dict[str, TestResult]:
    """Test → its worst result, and of equal ones the first."""
    results: dict[str, TestResult] = {}
    for name, result in found:
        if name not in results or SEVERITY.index(result.status) > SEVERITY.index(results[name].status):
            results[name] = result
    return results
