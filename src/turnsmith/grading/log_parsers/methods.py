"""Logs of `unittest -v` and of what descends from it: Django's runner, nose, nose2."""

import re
from collections.abc import Collection

from turnsmith.grading.log_parsers.base import Found, Results, TestResult, keep_worst

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
"""`test_x (pkg.mod.Class)`; since Python 3.11 `test_x (pkg.mod.Class.test_x)`."""
FUNCTION = re.compile(r"\w+(?:[.:]\w+)+")
ANNOUNCEMENT = re.compile(r" *(\S.*?) \.\.\.(?: (.*))?")
RUN_ON = re.compile(r"(?<= \.\.\. )(?=\w+ \([\w.]+\)(?: \.\.\. |$))", re.MULTILINE)
"""Before Python 3.11, a test whose subtests failed has no status, and the next one is announced on the same line."""
UNCOUNTED = ("xfailed", "xpassed")
HEADING = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")


def parse_unittest(log: str, known: Collection[str]) -> Results:
    """Logs of `unittest -v` and of what descends from it: Django's runner, nose, nose2.

    A test is announced, then comes what it prints, then its status; with a docstring the announcement is two lines. Since the
    tests print into it, nothing is believed for good: a status on a line of its own is added to the test announced last, and the
    report of failures at the end to everything. The ids are those of the log, or of the `known` ones that mean the same test.
    """
    lines = RUN_ON.sub("\n", log).split("\n")
    found = [*_read_progress(lines), *_read_headings(lines)]
    return keep_worst((wanted, result) for name, result in found for wanted in _spell(name, known))


def _read_progress(lines: list[str]) -> Found:
    """Announcements and statuses, in their order."""
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
    """A test that is announced by its docstring has its name on the line before; a subtest is its test."""
    if method := METHOD.match(announced):
        return (method[0],)
    return (before, announced) if METHOD.fullmatch(before) else (announced,)


def _read_status(text: str, *, at_end: bool) -> TestResult | None:
    """A status that is the whole text or, where asked for, ends it: what a test prints may stand before."""
    if skipped := SKIPPED.fullmatch(text):
        return TestResult("skipped", skipped[1].strip("'\""))
    ends = [word for word in UNITTEST_STATUSES if text == word or (at_end and text.endswith(word))]
    return TestResult(UNITTEST_STATUSES[max(ends, key=len)]) if ends else None


def _read_headings(lines: list[str]) -> Found:
    """The report at the end: `FAIL: test_x (pkg.mod.Class)`, and the docstring below where there is one."""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if heading := HEADING.fullmatch(line):
            result, method = TestResult(UNITTEST_STATUSES[heading[1]]), METHOD.match(heading[2])
            yield method[0] if method else heading[2], result
            if below.strip("-"):
                yield below, result


def _spell(name: str, known: Collection[str]) -> Collection[str]:
    """The known ids that mean this test, else the name as it stands: `test_x (m.T)`, `test_x (m.T.test_x)`, `m.T.test_x`."""
    spellings = {name}
    if method := METHOD.fullmatch(name):
        test, place = method[1], method[2].removesuffix(f".{method[1]}")
        spellings |= {f"{test} ({place})", f"{test} ({place}.{test})", f"{place}.{test}"}
    return spellings.intersection(known) or (name,)


def parse_django(log: str, known: Collection[str]) -> Results:
    """As SWE-bench reads Django's runner: expected failures have no status."""
    return {name: result for name, result in parse_unittest(log, known).items() if result.status not in UNCOUNTED}
