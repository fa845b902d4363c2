"""What every parser gives, and what all of them share.

A test listed twice takes its worst status: a test that passed and then failed in its teardown has failed, and a line that
a test printed to flatter itself changes nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

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

MAX_LINE = 8_000
"""A line is cut here before anyone looks for the end of a name in it: what prints it is not trusted with our time."""
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""What a terminal would obey: colours, cursors, titles."""


@dataclass(frozen=True)
class TestResult:
    """What the log says of one test."""

    __test__ = False  # pytest would take the name for a test class

    status: str
    """`passed`, `xfailed`, `xpassed`, `skipped`, `failed` or `error`."""
    message: str = ""
    """First line of the failure, e.g. `AssertionError: assert 3 == 4`; empty for a pass."""


Found = Iterable[tuple[str, TestResult]]
Results = dict[str, TestResult]
Parser = Callable[[str, Collection[str]], Results]
"""Log and the test ids known beforehand → result of each test in the log."""


def clean(log: str) -> str:
    """The log without what a terminal would obey, and with one way to end a line: nothing is hidden by being overwritten."""
    return ESCAPE.sub("", log).replace("\r\n", "\n").replace("\r", "\n")


def keep_worst(found: Found) -> Results:
    """Test → its worst result, and of equal ones the first."""
    results: Results = {}
    for name, result in found:
        if name not in results or SEVERITY.index(result.status) > SEVERITY.index(results[name].status):
            results[name] = result
    return results
