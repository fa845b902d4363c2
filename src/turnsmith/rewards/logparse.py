"""From the log of a test run to the status of each test.

A test listed twice takes its worst status: a test that passed and then failed in its teardown has failed, and a line that
a test printed to flatter itself changes nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from turnsmith.errors import UsageError
from turnsmith.rewards.results import STATUSES, TestResult, keep_worst
from turnsmith.rewards.unittest_log import parse_unittest

Parser = Callable[[str, Collection[str]], dict[str, TestResult]]
"""Log and the test ids known beforehand → result of each test in the log."""

WORDS = "|".join(STATUSES)
LINE = re.compile(rf"^({WORDS}) +(\S.*)$", re.MULTILINE)
MAX_LINE = 8_000
"""A line is cut here before anyone looks for the end of a name in it: what prints it is not trusted with our time."""
STATUS = re.compile(rf"(?<! ) +({WORDS})(?= |$)")
PROGRESS = re.compile(r"(?<! ) +\[ *\d+%\]$")
TIMING = re.compile(r"(?<! ) *[\[(]\d+(?:\.\d+)? *(?:s|ms|sec|seconds?)[\])]$", re.MULTILINE)
SUBTEST = re.compile(r"^SUBFAIL(?:ED)?(\S.*| .*)$", re.MULTILINE)
SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
PATH_AS_OPTION = re.compile(r"\[/(?!/)[^\]*]*/([^/\]*]*)\]$")
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""What a terminal would obey: colours, cursors, titles."""


def parse_log(log: str, parser: str, known: Collection[str] = ()) -> dict[str, TestResult]:
    """Read a log with the named parser; `known` test ids settle where an id ends. Raises UsageError for an unknown name."""
    if parser not in PARSERS:
        raise UsageError(f"unknown log_parser {parser!r}: use one of {', '.join(PARSERS)}")
    return PARSERS[parser](clean(log), known)


def clean(log: str) -> str:
    """The log without what a terminal would obey, and with one way to end a line: nothing is hidden by being overwritten."""
    return ESCAPE.sub("", log).replace("\r\n", "\n").replace("\r", "\n")


def parse_pytest(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """The short test summary of `pytest -rA`, e.g. `FAILED tests/test_a.py::test_b[x - y] - assert 1 == 2`."""
    summary = SUMMARY.search(log)
    if not summary:
        return {}
    text = log[summary.end() :]
    results = parse_lines(text, known)
    return results | _blame_parents(SUBTEST.findall(text), {*results, *known})


def parse_lines(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """Every line of the log that begins with a status word, e.g. `PASSED name`."""
    split = ((word, split_message(rest[:MAX_LINE].rstrip(), known)) for word, rest in LINE.findall(log))
    return keep_worst((name, TestResult(STATUSES[word], message)) for word, (name, message) in split)


def parse_verbose(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """Every line that begins or ends with a status word, timings left out: `PASSED name (0.1s)`, `name PASSED [ 50%]`."""
    text = TIMING.sub("", log)
    last = [found for line in text.split("\n") if (found := _read_last(line[:MAX_LINE])) and not LINE.match(found[0])]
    return keep_worst([*parse_lines(text, known).items(), *last])


def _read_last(line: str) -> tuple[str, TestResult] | None:
    """`name SKIPPED (no disk) [ 50%]` → `("name", skipped)`."""
    line = PROGRESS.sub("", line.rstrip())
    for found in STATUS.finditer(line):
        name, rest = line[: found.start()], line[found.end() :]
        if name and not name[0].isspace() and (not rest or (rest.lstrip().startswith("(") and rest.endswith(")"))):
            return name, TestResult(STATUSES[found[1]])
    return None


def parse_options(log: str, known: Collection[str]) -> dict[str, TestResult]:
    """Status first; of a parameter that is a path, only the last part counts: `name[/tmp/x7/a.py]` → `name[/a.py]`."""
    results = parse_verbose(log, known).items()
    return keep_worst((PATH_AS_OPTION.sub(r"[/\1]", name), result) for name, result in results)


PARSERS: dict[str, Parser] = {
    "pytest": parse_pytest,
    "lines": parse_lines,
    "verbose": parse_verbose,
    "options": parse_options,
    "tox": parse_verbose,
    "unittest": parse_unittest,
    "django": parse_unittest,
    "nose": parse_unittest,
    "parse_log_pytest": parse_lines,
    "parse_log_pytest_options": parse_options,
    "parse_log_pytest_v2": parse_verbose,
    "parse_log_seaborn": parse_verbose,
    "parse_log_django": parse_unittest,
}
"""Ours, and below them those of SWE-bench by the names that its data sets use."""


def _blame_parents(lines: Iterable[str], names: Collection[str]) -> dict[str, TestResult]:
    """A test fails with its subtests, though pytest lists it as passed: `[message] (i=1) a.py::T::t - assert 1 == 2`.

    Every name in the line is blamed, since the code under test may have written others into it.
    """
    results = {}
    for line in lines:
        for parent in [name for name in names if f" {name} - " in f" {line} - "] or [line]:
            results[parent] = TestResult("failed", line.partition(f"{parent} - ")[2])
    return results


def split_message(text: str, known: Collection[str] = ()) -> tuple[str, str]:
    """`"a.py::t[x - y] - boom"` → `("a.py::t[x - y]", "boom")`; a known id wins, else brackets are taken to be closed."""
    for is_it in (known.__contains__, _is_closed):
        for name, message in _splits(text):
            if is_it(name):
                return name, message
    return text, ""


def _is_closed(name: str) -> bool:
    return "[" not in name or name.endswith("]")


def _splits(text: str) -> Iterator[tuple[str, str]]:
    """Every way to cut at ` - `, shortest name first, the whole text last."""
    for separator in re.finditer(" - ", text):
        yield text[: separator.start()], text[separator.end() :]
    yield text, ""
