"""Log parsers of runners that list only failed tests, for the status rule `swe-bench-fail-only`."""

import re
from collections.abc import Collection
from itertools import pairwise

from turnsmith.grading.log_parsers.base import MAX_LINE, Parser, Results, TestResult

_NUMBERED = re.compile(r"\d{1,9}\)\s(.*)")
_RUNS = re.compile(r"\s+")
MAX_LINES = 50
"""Maximum number of lines of a wrapped test name."""


def make_browser_parser(browser: str) -> Parser:
    """Make a parser of karma's lines `Chrome 108.0 (Linux x86_64) suite test FAILED`."""
    pattern = re.compile(rf"{browser} (.*)FAILED")

    def parse(log: str, known: Collection[str]) -> Results:
        found = (pattern.search(line[:MAX_LINE]) for line in log.split("\n"))
        return {each[1]: TestResult("failed") for each in found if each and each.end() == len(each.string)}

    return parse


def parse_numbered(log: str, known: Collection[str]) -> Results:
    """Read jasmine's lines `1) suite test`."""
    found = (_NUMBERED.match(line[:MAX_LINE]) for line in log.split("\n"))
    return {each[1].strip(): TestResult("failed") for each in found if each}


def parse_broken(log: str, known: Collection[str]) -> Results:
    """Read mocha's failures: `1) suite`, the test on lines below, then the error."""
    lines = [line[:MAX_LINE] for line in log.split("\n")]
    starts = [at for at, line in enumerate(lines) if re.match(r" {2}\d{1,9}\)", line)]
    found: Results = {}
    for start, following in pairwise([*starts, len(lines)]):
        block = "\n".join(lines[start : min(following, start + MAX_LINES)])
        head, error, _ = block.partition("Error")
        if error:
            name = _RUNS.sub(" ", head.rpartition("\n")[0].partition(")")[2]).strip()
            found[name] = TestResult("failed")
    return found
