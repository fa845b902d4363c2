"""Interface and shared functions of log parsers.

If a log lists a test twice, the worst status counts. So a test cannot improve its result by printing a line.
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
"""Status words of pytest → statuses of Turnsmith."""
SEVERITY = list(STATUSES.values())
"""Statuses, from best to worst."""

MAX_LINE = 8_000
"""Maximum number of characters that parsers read of a line, to limit their time."""
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Pattern of terminal escape sequences: colours, cursor movements, titles."""


@dataclass(frozen=True)
class TestResult:
    """Result of one test in a log."""

    __test__ = False  # pytest would take the name for a test class

    status: str
    """Status of the test: `passed`, `xfailed`, `xpassed`, `skipped`, `failed` or `error`."""
    message: str = ""
    """First line of the failure, e.g. `AssertionError: assert 3 == 4`; empty for a pass."""


Found = Iterable[tuple[str, TestResult]]
Results = dict[str, TestResult]
Parser = Callable[[str, Collection[str]], Results]
"""Function from a log, and the test ids known beforehand, to the result of each test in the log."""


def clean(log: str) -> str:
    """Remove terminal escape sequences from a log and normalise its line ends."""
    return ESCAPE.sub("", log).replace("\r\n", "\n").replace("\r", "\n")


def split_lines(log: str) -> Iterator[str]:
    """Yield the lines of a log, each cut to `MAX_LINE` characters."""
    return (line[:MAX_LINE] for line in log.split("\n"))


def keeps_worst(read: Callable[[str, Collection[str]], Found]) -> Parser:
    """Make a parser from a function that yields results; if a test has several results, the worst one counts."""

    @wraps(read)
    def parse(log: str, known: Collection[str]) -> Results:
        results: Results = {}
        for name, result in read(log, known):
            if name not in results or SEVERITY.index(result.status) > SEVERITY.index(results[name].status):
                results[name] = result
        return results

    return parse
