"""From the log of a test run to the status of each test.

A test listed twice takes its worst status: a test that passed and then failed in its teardown has failed, and a line that
a test printed to flatter itself changes nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from turnsmith.errors import UsageError


@dataclass(frozen=True)
class TestResult:
    """What the log says of one test."""

    __test__ = False  # pytest would take the name for a test class

    status: str
    """`passed`, `xfailed`, `xpassed`, `skipped`, `failed` or `error`."""
    message: str = ""
    """First line of the failure, e.g. `AssertionError: assert 3 == 4`; empty for a pass."""


Parser = Callable[[str, Collection[str]], dict[str, TestResult]]
"""Log and the test ids known beforehand → result of each test in the log."""

STATUSES = {
    "PASSED": "passed",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "SKIPPED": "skipped",
    "FAILED": "failed",
    "ERROR": "error",
}
SEVERITY = list(STATUSES.values())
"""From best to worst."""
LINE = re.compile(rf"^({'|'.join(STATUSES)}) +(\S.*?)\s*$", re.MULTILINE)
SUBTEST = re.compile(r"^SUBFAIL(?:ED)?(\S.*| .*)$", re.MULTILINE)
SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)


def parse_log(log: str, parser: str, known: Collection[str] = ()) -> dict[str, TestResult]:
    """Read a log with the named parser; `known` test ids settle where an id ends. Raises UsageError for an unknown name."""
    if parser not in PARSERS:
        raise UsageError(f"unknown log_parser {parser!r}: use one of {', '.join(PARSERS)}")
    return PARSERS[parser](log, known)


def parse_pytest(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """The short test summary of `pytest -rA`, e.g. `FAILED tests/test_a.py::test_b[x - y] - assert 1 == 2`."""
    summary = SUMMARY.search(log)
    if not summary:
        return {}
    text = log[summary.end() :]
    results = _collect(text, known)
    return results | _blame_parents(SUBTEST.findall(text), {*results, *known})


def parse_lines(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """Every line of the log that begins with a status word, e.g. `PASSED name`."""
    return _collect(log, known)


PARSERS: dict[str, Parser] = {"pytest": parse_pytest, "lines": parse_lines}


def _collect(text: str, known: Collection[str]) -> dict[str, TestResult]:
    results: dict[str, TestResult] = {}
    for word, rest in LINE.findall(text):
        name, message = split_message(rest, known)
        result = TestResult(STATUSES[word], message)
        if name not in results or _severity(result) > _severity(results[name]):
            results[name] = result
    return results


def _blame_parents(lines: Iterable[str], names: Collection[str]) -> dict[str, TestResult]:
    """A test fails with its subtests, though pytest lists it as passed: `[message] (i=1) a.py::T::t - assert 1 == 2`.

    Every name in the line is blamed, since the code under test may have written others into it.
    """
    results = {}
    for line in lines:
        for parent in [name for name in names if f" {name} - " in f" {line} - "] or [line]:
            results[parent] = TestResult("failed", line.partition(f"{parent} - ")[2])
    return results


def _severity(result: TestResult) -> int:
    return SEVERITY.index(result.status)


def split_message(text: str, known: Collection[str] = ()) -> tuple[str, str]:
    """`"a.py::t[x - y] - boom"` → `("a.py::t[x - y]", "boom")`; a known id wins, else brackets are taken to be closed."""
    splits = list(_splits(text))
    for name, message in splits:
        if name in known:
            return name, message
    for name, message in splits:
        if "[" not in name or name.endswith("]"):
            return name, message
    return text, ""


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Every way to cut at ` - `, shortest name first, the whole text last."""
    for separator in re.finditer(" - ", text):
        yield text[: separator.start()], text[separator.end() :]
    yield text, ""
