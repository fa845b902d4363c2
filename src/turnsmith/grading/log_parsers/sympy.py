"""Log parser of sympy's test runner, `bin/test -C --verbose`."""

import re
from collections.abc import Collection

from turnsmith.grading.log_parsers.base import MAX_LINE, Found, Results, TestResult, keep_worst

_ENDS = {"ok": "passed", "F": "failed", "E": "error"}
_HEADING = re.compile(r"_+ (\S+\.py:\S+) _+")


def parse_sympy(log: str, known: Collection[str]) -> Results:
    """Read lines `test_eq ok` and headings of failures. Skips and expected failures have no status."""
    return keep_worst(_read(log))


def _read(log: str) -> Found:
    for line in (line[:MAX_LINE].strip() for line in log.split("\n")):
        if heading := _HEADING.fullmatch(line):
            yield heading[1], TestResult("failed")
        elif line.startswith("test_") and (status := _ENDS.get(line.rpartition(" ")[2])):
            yield line.split()[0], TestResult(status)
