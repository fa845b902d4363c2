"""Log parsers of runners that print one line per test, such as `ok 3 name` or `--- FAIL: TestName (0.00s)`.

A form is a pattern that a stripped line must match as a whole, in linear time. Statuses that the data set's harness ignores
are ignored here too.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from turnsmith.grading.log_parsers.base import Found, Parser, TestResult, keeps_worst, split_lines

_MS = r"\d{1,12} ?m?s"
_TIME = r"[\d.]{1,12} ?m?s"
_PASS = {"PASS": "passed", "FAIL": "failed"}


@dataclass(frozen=True)
class Form:
    """Form of a line that names a test and its status."""

    pattern: str
    """Regular expression with the groups `name` and `word`."""
    statuses: Mapping[str, str]
    """Status words of the log → statuses."""


FORMS = {
    "ant": [Form(r"\[junit\]\s+\[(?P<word>PASS|FAIL|ERR)\]\s+(?P<name>.*)", _PASS | {"ERR": "failed"})],
    "cargo": [Form(r"test\s+(?P<name>\S+)\s+\.\.\.\s+(?P<word>\w+)", {"ok": "passed", "FAILED": "failed"})],
    "ctest": [
        Form(
            r"\d+/\d+ +Test +#\d+: (?P<name>\S+) \.+ *(?P<word>Passed|\*\*\*(?:Failed|Timeout|Exception|Skipped)).*",
            {"Passed": "passed", "***Skipped": "skipped"}
            | dict.fromkeys(("***Failed", "***Timeout", "***Exception"), "failed"),
        )
    ],
    "cucumber": [Form(r"(?P<name>.*) (?:\.+(?P<word>F)|\.\.).*", {"": "passed", "F": "failed"})],
    "googletest": [
        Form(
            r"(?:\d+: *)?\[ *(?P<word>OK|FAILED) *\] (?P<name>.*) \([^()]*\)",
            {"OK": "passed", "FAILED": "failed"},
        )
    ],
    "gotest": [Form(r"--- (?P<word>PASS|FAIL|SKIP): (?P<name>.+) \([^()]+\)", _PASS | {"SKIP": "skipped"})],
    "jest": [Form(rf"(?P<word>[✓✕○])\s(?P<name>.+?)(?:\s\({_MS}\))?", {"✓": "passed", "✕": "failed", "○": "skipped"})],
    "jest-files": [Form(rf"(?P<word>PASS|FAIL)\s(?P<name>.*?)(?:\s\({_TIME}\))?", _PASS)],
    "jest-json": [Form(r"\[(?P<word>PASSED|FAILED)\]\s(?P<name>.+)", {"PASSED": "passed", "FAILED": "failed"})],
    "jq": [Form(r"(?P<word>PASS|FAIL):\s(?P<name>.+)", _PASS)],
    "micropython": [
        Form(r"(?P<word>pass|FAIL|skip)\s+(?P<name>.+)", {"pass": "passed", "FAIL": "failed", "skip": "skipped"})
    ],
    "minitest": [
        Form(rf"(?P<name>.+)\. (?:= )?{_TIME} = (?P<word>[.FE])", {".": "passed", "F": "failed", "E": "failed"})
    ],
    "redis": [
        Form(r"\[(?P<word>err)\]:\s(?P<name>.+?)(?:\s+in\s\S+)?", {"err": "failed"}),
        Form(
            rf"\[(?P<word>ok|skip|ignore)\]:\s(?P<name>.+?)(?:\s\({_MS}\))?",
            {"ok": "passed", "skip": "skipped", "ignore": "skipped"},
        ),
    ],
    "rspec": [Form(r"(?P<name>.+) - (?P<word>passed|failed)", {"passed": "passed", "failed": "failed"})],
    "tap": [Form(r"(?P<word>ok|not ok) \d+ (?P<name>.+)", {"ok": "passed", "not ok": "failed"})],
    "test-unit": [
        Form(
            r"(?:test: )?(?P<name>.+):\s+(?P<word>\.|[EFO]\b).*",
            {".": "passed", "E": "failed", "F": "failed", "O": "skipped"},
        )
    ],
    "vitest": [
        Form(
            r"(?P<word>[✓×↓])\s(?P<name>.+?)(?:\s(?:\d{1,12} ?m?s?|\[skipped\]))?",
            {"✓": "passed", "×": "failed", "↓": "skipped"},
        )
    ],
}


def make_parser(forms: Collection[Form]) -> Parser:
    """Make a parser of lines of these forms."""
    compiled = [(re.compile(form.pattern), form.statuses) for form in forms]

    @keeps_worst
    def parse(log: str, known: Collection[str]) -> Found:
        for line in map(str.strip, split_lines(log)):
            for pattern, statuses in compiled:
                found = pattern.fullmatch(line)
                if found and (status := statuses.get(found["word"] or "")):
                    yield found["name"].strip(), TestResult(status)

    return parse
