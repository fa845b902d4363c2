"""Log parsers of runners that print one line per test, such as `ok 3 name` or `--- FAIL: TestName (0.00s)`.

A stripped line must match a pattern as a whole, in linear time. Statuses that the data set's harness ignores are
ignored too.
"""

import re
from collections.abc import Collection

from turnsmith.grading.log_parsers.base import Found, Parser, TestResult, keeps_worst, split_lines

_MS = r"\d{1,12} ?m?s"
_TIME = r"[\d.]{1,12} ?m?s"
_WORDS = {
    "passed": ["", ".", "✓", "OK", "PASS", "PASSED", "Passed", "ok", "pass", "passed"],
    "skipped": ["***Skipped", "↓", "○", "O", "SKIP", "ignore", "skip"],
    "failed": [
        *("***Exception", "***Failed", "***Timeout", "×", "✕"),
        *("E", "ERR", "F", "FAIL", "FAILED", "err", "failed", "not ok"),
    ],
}
_STATUSES = {word: status for status, words in _WORDS.items() for word in words}

PATTERNS = {
    "ant": [r"\[junit\]\s+\[(?P<word>PASS|FAIL|ERR)\]\s+(?P<name>.*)"],
    "cargo": [r"test\s+(?P<name>\S+)\s+\.\.\.\s+(?P<word>ok|FAILED)"],
    "ctest": [r"\d+/\d+ +Test +#\d+: (?P<name>\S+) \.+ *(?P<word>Passed|\*\*\*(?:Failed|Timeout|Exception|Skipped)).*"],
    "cucumber": [r"(?P<name>.*) (?:\.+(?P<word>F)|\.\.).*"],
    "googletest": [r"(?:\d+: *)?\[ *(?P<word>OK|FAILED) *\] (?P<name>.*) \([^()]*\)"],
    "gotest": [r"--- (?P<word>PASS|FAIL|SKIP): (?P<name>.+) \([^()]+\)"],
    "jest": [rf"(?P<word>[✓✕○])\s(?P<name>.+?)(?:\s\({_MS}\))?"],
    "jest-files": [rf"(?P<word>PASS|FAIL)\s(?P<name>.*?)(?:\s\({_TIME}\))?"],
    "jest-json": [r"\[(?P<word>PASSED|FAILED)\]\s(?P<name>.+)"],
    "jq": [r"(?P<word>PASS|FAIL):\s(?P<name>.+)"],
    "micropython": [r"(?P<word>pass|FAIL|skip)\s+(?P<name>.+)"],
    "minitest": [rf"(?P<name>.+)\. (?:= )?{_TIME} = (?P<word>[.FE])"],
    "redis": [
        r"\[(?P<word>err)\]:\s(?P<name>.+?)(?:\s+in\s\S+)?",
        rf"\[(?P<word>ok|skip|ignore)\]:\s(?P<name>.+?)(?:\s\({_MS}\))?",
    ],
    "rspec": [r"(?P<name>.+) - (?P<word>passed|failed)"],
    "tap": [r"(?P<word>ok|not ok) \d+ (?P<name>.+)"],
    "test-unit": [r"(?:test: )?(?P<name>.+):\s+(?P<word>\.|[EFO]\b).*"],
    "vitest": [r"(?P<word>[✓×↓])\s(?P<name>.+?)(?:\s(?:\d{1,12} ?m?s?|\[skipped\]))?"],
}
"""Runner → patterns of its lines, with the groups `name` and `word` (the status word)."""


def make_parser(patterns: Collection[str]) -> Parser:
    """Make a parser of logs whose lines match one of the patterns."""
    compiled = [re.compile(pattern) for pattern in patterns]

    @keeps_worst
    def parse(log: str, known: Collection[str]) -> Found:
        for line in map(str.strip, split_lines(log)):
            for found in filter(None, (pattern.fullmatch(line) for pattern in compiled)):
                yield found["name"].strip(), TestResult(_STATUSES[found["word"] or ""])

    return parse
