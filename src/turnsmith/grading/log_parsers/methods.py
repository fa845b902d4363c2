"""Log parsers of `unittest -v`, Django's test runner, nose and nose2."""

import re
from collections.abc import Collection

from turnsmith.grading.log_parsers.base import Found, Results, TestResult, keeps_worst

UNITTEST_STATUSES = {
    "ok": "passed",
    "OK": "passed",
    "FAIL": "failed",
    "ERROR": "error",
    "unexpected success": "xpassed",
    "UNEXPECTED SUCCESS": "xpassed",
    "expected failure": "xfailed",
}
SKIPPED = re.compile(r"(?:skipped|SKIP)\b[: ]*(.*)")
METHOD = re.compile(r"(\w+) \(([\w.]+(?:\.<locals>\.\w+)*)\)")
"""Pattern of a test in unittest's logs: `test_x (pkg.mod.Class)`, since Python 3.11 `test_x (pkg.mod.Class.test_x)`."""
FUNCTION = re.compile(r"\w+(?:[.:]\w+)+")
ANNOUNCEMENT = re.compile(r" *(\S.*?) \.\.\.(?: (.*))?")
RUN_ON = re.compile(r"(?<= \.\.\. )(?=\w+ \([\w.]+\)(?: \.\.\. |$))", re.MULTILINE)
"""Pattern of the place in a line where the next test starts, as after failed subtests before Python 3.11; the line is split."""
UNCOUNTED = ("xfailed", "xpassed")
HEADING = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")


@keeps_worst
def parse_unittest(log: str, known: Collection[str]) -> Found:
    """Read logs of `unittest -v`, Django's test runner, nose and nose2. If a test has several results, the worst counts.

    A test is announced, then comes its output, then its status; with a docstring the announcement has two lines. A status on
    a separate line counts for the test announced last. If `known` has ids of a test, they replace the name in the log.
    """
    lines = RUN_ON.sub("\n", log).split("\n")
    found = [*_read_progress(lines), *_read_headings(lines)]
    return ((wanted, result) for name, result in found for wanted in _spell(name, known))


def _read_progress(lines: list[str]) -> Found:
    last: tuple[str, ...] = ()
    for before, line in zip(["", *lines], lines, strict=False):
        if announced := ANNOUNCEMENT.fullmatch(line):
            names, result = _names(before, announced[1]), _read_status(announced[2] or "", at_end=True)
            if result or METHOD.fullmatch(names[0]) or FUNCTION.fullmatch(names[0]):
                last = names
        else:
            result = _read_status(line, at_end=False)
        if result:
            yield from ((name, result) for name in last)


def _names(before: str, announced: str) -> tuple[str, ...]:
    """Return the names of the test that a line announces; if the line shows a docstring, the name is on the line before it."""
    if method := METHOD.match(announced):
        return (method[0],)
    return (before, announced) if METHOD.fullmatch(before) else (announced,)


def _read_status(text: str, *, at_end: bool) -> TestResult | None:
    """Read a status that is the whole text or, with `at_end`, the end of the text after output of the test."""
    if skipped := SKIPPED.fullmatch(text):
        return TestResult("skipped", skipped[1].strip("'\""))
    words = [word for word in UNITTEST_STATUSES if text == word or (at_end and text.endswith(word))]
    return TestResult(UNITTEST_STATUSES[max(words, key=len)]) if words else None


def _read_headings(lines: list[str]) -> Found:
    """Read the failures that a log lists at its end: `FAIL: test_x (pkg.mod.Class)`."""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if heading := HEADING.fullmatch(line):
            result, method = TestResult(UNITTEST_STATUSES[heading[1]]), METHOD.match(heading[2])
            yield method[0] if method else heading[2], result
            if below.strip("-"):
                yield below, result


def _spell(name: str, known: Collection[str]) -> Collection[str]:
    """Return the ids in `known` of the test `test_x (m.T)`, also spelled `test_x (m.T.test_x)` or `m.T.test_x`; else its name."""
    spellings = {name}
    if method := METHOD.fullmatch(name):
        test, place = method[1], method[2].removesuffix(f".{method[1]}")
        spellings |= {f"{test} ({place})", f"{test} ({place}.{test})", f"{place}.{test}"}
    return spellings.intersection(known) or (name,)


def parse_django(log: str, known: Collection[str]) -> Results:
    """Read Django's logs as SWE-bench does: expected failures and unexpected successes have no status."""
    return {name: result for name, result in parse_unittest(log, known).items() if result.status not in UNCOUNTED}
