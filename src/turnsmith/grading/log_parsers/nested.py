"""Log parsers of runners that list tests below their suites: mocha, karma, phpunit."""

import re
from collections.abc import Collection, Iterator

from turnsmith.grading.log_parsers.base import MAX_LINE, Found, Results, TestResult, keep_worst

_TICKS = {"✓": "passed", "✔": "passed", "✖": "failed", "✗": "failed", "✘": "failed", "↩": "skipped"}
_TICK = re.compile(r"([✓✔✖✗✘↩])\s*(.*)")
_NUMBERED = re.compile(r"\d{1,9}\) ?(.*)")
_TIMING = re.compile(r"\(\d{1,12}ms\)")
_COUNTS = re.compile(r"[ \t]*\d{1,12} passing")
_PHP_SUITE = re.compile(r"(\w.+) \([^()]+\)")


def parse_mocha(log: str, known: Collection[str]) -> Results:
    """Read mocha's reporter `spec` as `outer > inner > test`, up to its counts."""
    found = ((" > ".join([*suites, name]), TestResult(status)) for suites, name, status in _walk(_until_counts(log)))
    return keep_worst(found)


def parse_highlightjs(log: str, known: Collection[str]) -> Results:
    """Read mocha's reporter `spec` with the innermost suite only: `suite.test`."""
    found = ((".".join([*suites[-1:], name]), TestResult(status)) for suites, name, status in _walk(_until_counts(log)))
    return keep_worst(found)


def _until_counts(log: str) -> Iterator[str]:
    """Yield the lines before `12 passing`."""
    for line in log.split("\n"):
        if _COUNTS.match(line):
            return
        yield line[:MAX_LINE]


def _walk(lines: Iterator[str]) -> Iterator[tuple[list[str], str, str]]:
    """Yield the suites, by indentation, and the name and status of each test."""
    suites: list[tuple[int, str]] = []
    for line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if test := _read_test(text):
            yield [name for _, name in suites], *test
        elif text and depth >= 2:
            suites = [*((above, name) for above, name in suites if above < depth), (depth, text)]


def _read_test(text: str) -> tuple[str, str] | None:
    """Read a test line: `✔ adds (12ms)` → `("adds", "passed")`; failures have a number instead of a tick."""
    if tick := _TICK.fullmatch(text):
        return _TIMING.sub("", tick[2]).strip(), _TICKS[tick[1]]
    if numbered := _NUMBERED.fullmatch(text):
        return _TIMING.sub("", numbered[1]).strip(), "failed"
    return None


def parse_karma(log: str, known: Collection[str]) -> Results:
    """Read karma's tree between the start of the browser and the summary: `outer > inner > test`."""
    _, _, run = log.partition("Starting browser")
    tree = (line[:MAX_LINE] for line in run.partition("\nSUMMARY:")[0].split("\n")[1:])
    found = ((" > ".join([*suites, name]), TestResult(status)) for suites, name, status in _walk(tree))
    return keep_worst(found)


def parse_phpunit(log: str, known: Collection[str]) -> Results:
    """Read the output of phpunit's `--testdox`: `Suite > does a thing`."""
    return keep_worst(_read_testdox(log))


def _read_testdox(log: str) -> Found:
    suite = ""
    for line in log.split("\n"):
        if named := _PHP_SUITE.fullmatch(line[:MAX_LINE]):
            suite = named[1]
        elif tick := _TICK.fullmatch(line[:MAX_LINE].strip()):
            yield f"{suite} > {tick[2]}", TestResult(_TICKS[tick[1]])
