"""Interface and shared functions of log parsers.

A test that is listed twice gets its worst status, so a line that a test prints cannot improve its result.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps

STATUSES = {
    "PASSED": "passed",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "SKIPPED": "skipped",
    "FAILED": "failed",
    "ERROR": "error",
}
"""Pytest's status words → statuses."""
SEVERITY = list(STATUSES.values())
"""Statuses from best to worst."""

MAX_LINE = 8_000
"""Maximum number of characters of a line that parsers read, to bound their time."""
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Terminal escape sequences: colours, cursor movements, titles."""


@dataclass(frozen=True)
class TestResult:
    """Result of one test in a log."""

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
    """Remove terminal escape sequences and normalise line ends, so that no text is overwritten."""
    return ESCAPE.sub("", log).replace("\r\n", "\n").replace("\r", "\n")


def split_lines(log: str) -> Iterator[str]:
    """Yield the lines of a log, cut to the maximum length."""
    return (line[:MAX_LINE] for line in log.split("\n"))


def keeps_worst(read: Callable[[str, Collection[str]], Found]) -> Parser:
    """Make a parser that returns each test's worst result, the first of equal ones."""

    @wraps(read)
    def parse(log: str, known: Collection[str]) -> Results:
        results: Results = {}
        for name, result in read(log, known):
            if name not in results or SEVERITY.index(result.status) > SEVERITY.index(results[name].status):
                results[name] = result
        return results

    return parse
