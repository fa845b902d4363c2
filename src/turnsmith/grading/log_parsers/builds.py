"""Log parsers of Java builds: maven and gradle."""

import re
from collections import deque
from collections.abc import Collection

from turnsmith.grading.log_parsers.base import MAX_LINE, Found, Results, TestResult, keep_worst

_TEST = re.compile(r"-Dtest=(\S+)")
_BUILDS = {"BUILD SUCCESS": "passed", "BUILD FAILURE": "failed"}
_WORDS = {"PASSED": "passed", "FAILED": "failed"}
_METHOD = re.compile(r"[^>]\S*\s+>\s+\S+")


def parse_maven(log: str, known: Collection[str]) -> Results:
    """Read maven logs in which each test has its own command, shown as `-Dtest=name`."""
    tests, early = deque[str](), deque[str]()
    found = []
    for line in (line[:MAX_LINE].strip() for line in log.split("\n")):
        if named := list(_TEST.finditer(line)):
            tests.append(named[-1][1])
        if status := next((status for end, status in _BUILDS.items() if line.endswith(end)), None):
            if tests:
                found.append((tests.popleft(), TestResult(status)))
            else:
                early.append(status)
    late = zip(tests, early, strict=False)
    return keep_worst([*found, *((test, TestResult(status)) for test, status in late)])


def parse_gradle(log: str, known: Collection[str]) -> Results:
    """Read gradle's lines `com.example.Test > method PASSED`; output may stand between name and status."""
    return keep_worst(_read_gradle(log))


def _read_gradle(log: str) -> Found:
    last = ""
    for line in (line[:MAX_LINE].strip() for line in log.split("\n")):
        name, _, word = (" " + line).rpartition(" ")
        if word not in _WORDS:
            last = line if _METHOD.fullmatch(line) else last
        elif (test := name.strip() or last) and not test.startswith(">"):
            yield test, TestResult(_WORDS[word])
            last = ""
