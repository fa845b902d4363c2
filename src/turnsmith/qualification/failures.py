"""Error messages of failing tests, and names that these messages report as missing."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import PurePosixPath

from turnsmith.grading.log_parsers.base import clean
from turnsmith.grading.log_parsers.methods import METHOD
from turnsmith.grading.testing import SuiteReport
from turnsmith.qualification.fragments import new_words
from turnsmith.types import Task

COLLECTING = re.compile(r"^_+ ERROR collecting (\S+) _+$(.*?)(?=^_+ |^=+ |\Z)", re.MULTILINE | re.DOTALL)
LOADING = re.compile(r"^ImportError while loading conftest '[^'\n]*'\.$(.*?)(?=^=+ |\Z)", re.MULTILINE | re.DOTALL)
COMPLAINT = re.compile(r"^E +\S.*$", re.MULTILINE)
BLOCK = re.compile(
    r"^={70}\n(?:ERROR|FAIL): ([^\n]+)\n(?:([^\n]+)\n)??-{70}\n(.*?)(?=^={70}$|^-{70}$|\Z)", re.MULTILINE | re.DOTALL
)
"""Pattern of a failure in unittest's report. Its groups: heading, first line of the test's docstring, traceback."""
RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+([^\n]+)$", re.MULTILINE)
UNLOADED = re.compile(r"([\w.]+) \(unittest\.loader\._FailedTest\b")
"""Pattern of the heading of a failure that names a module that unittest could not import."""
FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")
MISSING = re.compile(r"(?:has no attribute|cannot import name|No module named) '([\w.]+)'")

Concerns = Callable[[str], bool]
"""Function that returns True for the ids of the tests that an error message in a log concerns."""


def find_messages(tests: Iterable[str], report: SuiteReport) -> dict[str, str]:
    """Find the error message of each test, or of its file if that could not be loaded; empty if there is none."""
    messages = {test: result.message for test, result in report.results.items()}
    complaints = list(_read_complaints(clean(report.log)))
    return {
        test: messages.get(test) or next((text for concerns, text in complaints if concerns(test)), "")
        for test in tests
    }


def _read_complaints(log: str) -> Iterator[tuple[Concerns, str]]:
    """Yield the errors in a log as pairs: a function that tells which tests an error concerns, and its message."""
    for path, text in COLLECTING.findall(log):
        yield _match_path(path), _last(COMPLAINT, text)
    for text in LOADING.findall(log):
        yield (lambda test: True), _last(COMPLAINT, text)  # all tests need their conftest.py
    for heading, docstring, text in BLOCK.findall(log):
        yield _match_heading(heading, docstring), _last(RAISED, text)


def _last(pattern: re.Pattern[str], text: str) -> str:
    """Return the last match of a pattern in a traceback; of several exceptions, the last one ended the test."""
    return next(reversed(pattern.findall(text)), "")


def _match_path(path: str) -> Concerns:
    """Make a function that returns True for ids of pytest tests in the given file or folder."""
    return lambda test: PurePosixPath(test.split("::")[0]).is_relative_to(path)


def _match_heading(heading: str, docstring: str) -> Concerns:
    """Make a function that returns True for the tests that a heading of unittest names: one test, a class or a module.

    unittest may omit the package of a module that it cannot import: `test_a (unittest.loader._FailedTest)`.
    """
    if module := UNLOADED.match(heading):
        return lambda test: f".{module[1]}." in f".{name_in_full(test)}."
    place = name_in_full(heading)
    return lambda test: test in (heading, docstring) or f"{name_in_full(test)}.".startswith(f"{place}.")


def name_in_full(test: str) -> str:
    """Return the dotted name of a test: `test_x (m.T)` → `m.T.test_x`, `setUpClass (m.T)` → `m.T`."""
    method = METHOD.match(test)
    if not method:
        return test
    place = method[2].removesuffix(f".{method[1]}")
    return place if method[1] in FIXTURES else f"{place}.{method[1]}"


def find_missing_names(task: Task, messages: Collection[str]) -> list[str]:
    """List the names that error messages report as missing, if the gold patch adds them and the issue does not give them.

    Empty unless each error message reports a missing name that the patch adds. The type of the error does not suffice,
    because a wrong value can raise it, too: `'int' object has no attribute 'isdigit'`.
    """
    brought = new_words(task.patch)
    found = [MISSING.search(message) for message in messages]
    names = [match[1].rpartition(".")[2] if match else "" for match in found]
    if not all(name in brought for name in names):
        return []
    return sorted(name for name in set(names) if not gives_name(task.problem_statement, name))


def gives_name(issue: str, name: str) -> bool:
    """Return True if an issue gives a name. Possible English words count only as code: `.refund`, `refund(`, or quoted."""
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    is_prose = name.isalpha() and name in (name.lower(), name.capitalize())
    return re.search(rf"(?<=[`'\".]){word}|{word}(?=[`'\"(])" if is_prose else word, issue) is not None
