"""What runners say of failing tests, and the names for want of which they fail."""

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
"""Of unittest's report: heading, first line of the docstring, traceback."""
RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+([^\n]+)$", re.MULTILINE)
UNLOADED = re.compile(r"([\w.]+) \(unittest\.loader\._FailedTest\b")
FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")
MISSING = re.compile(r"(?:has no attribute|cannot import name|No module named) '([\w.]+)'")

SpeaksOf = Callable[[str], bool]
"""Test id → is a complaint about that test?"""


def find_messages(tests: Iterable[str], report: SuiteReport) -> dict[str, str]:
    """What the runner says of each test, or of what it could not load for it; nothing where it says nothing."""
    said = {test: result.message for test, result in report.results.items()}
    complaints = list(_read_complaints(clean(report.log)))
    return {test: said.get(test) or _find_complaint(test, complaints) for test in tests}


def _find_complaint(test: str, complaints: Iterable[tuple[SpeaksOf, str]]) -> str:
    return next((message for speaks_of, message in complaints if speaks_of(test)), "")


def _read_complaints(log: str) -> Iterator[tuple[SpeaksOf, str]]:
    """Complaints of pytest about files, folders and `conftest.py`, then those of unittest."""
    for path, text in COLLECTING.findall(log):
        yield _lies_in(path), _last(COMPLAINT, text)
    for text in LOADING.findall(log):
        yield _is_any, _last(COMPLAINT, text)
    for heading, docstring, text in BLOCK.findall(log):
        yield _is_named(heading, docstring), _last(RAISED, text)


def _last(pattern: re.Pattern[str], text: str) -> str:
    """Of exceptions in a chain, the one that ended the test."""
    return next(reversed(pattern.findall(text)), "")


def _is_any(test: str) -> bool:
    """No test runs without its `conftest.py`."""
    return True


def _lies_in(path: str) -> SpeaksOf:
    """Is a test of pytest's in this file, or below this folder?"""
    return lambda test: PurePosixPath(test.split("::")[0]).is_relative_to(path)


def _is_named(heading: str, docstring: str) -> SpeaksOf:
    """Is a test of unittest's the one of the heading, or one that needed what the heading names?

    A module that could not be imported may have lost its packages: `test_a (unittest.loader._FailedTest)` was `tests.test_a`.
    """
    if module := UNLOADED.match(heading):
        return lambda test: f".{module[1]}." in f".{name_in_full(test)}."
    place = name_in_full(heading)
    return lambda test: test in (heading, docstring) or f"{name_in_full(test)}.".startswith(f"{place}.")


def name_in_full(test: str) -> str:
    """`test_x (m.T)` and `test_x (m.T.test_x)` are `m.T.test_x`; `setUpClass (m.T)` is `m.T`."""
    method = METHOD.match(test)
    if not method:
        return test
    place = method[2].removesuffix(f".{method[1]}")
    return place if method[1] in FIXTURES else f"{place}.{method[1]}"


def find_missing_names(task: Task, messages: Collection[str]) -> list[str]:
    """List the names that every message lacks, the gold patch brings and the issue does not give; else nothing.

    The paper leaves out tasks whose tests fail by AttributeError or ImportError: they ask for names that the issue need not give.
    A wrong value, `'int' object has no attribute 'isdigit'`, fails by that class as well, so the name has to be the patch's.
    """
    brought = new_words(task.patch)
    found = [MISSING.search(message) for message in messages]
    names = [match[1].rpartition(".")[2] if match else "" for match in found]
    if not all(name in brought for name in names):
        return []
    return sorted(name for name in set(names) if not gives_name(task.problem_statement, name))


def gives_name(issue: str, name: str) -> bool:
    """Check for a name written as code: `.refund`, `refund(`, in quotes; any whole word where no prose writes such a word."""
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    is_prose = name.isalpha() and name in (name.lower(), name.capitalize())
    return re.search(rf"(?<=[`'\".]){word}|{word}(?=[`'\"(])" if is_prose else word, issue) is not None
