"""Log parsers of maven, gradle, mocha, karma, phpunit, sympy, and of runners that list only failed tests."""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice, pairwise, takewhile

from turnsmith.grading.log_parsers.base import Found, Parser, TestResult, keeps_worst, split_lines

_MAVEN_TEST = re.compile(r"-Dtest=(\S+)")
_MAVEN_STATUSES = {"BUILD SUCCESS": "passed", "BUILD FAILURE": "failed"}
_GRADLE_STATUSES = {"PASSED": "passed", "FAILED": "failed"}
_GRADLE_TEST = re.compile(r"[^>]\S*\s+>\s+\S+")
_TICKS = {"✓": "passed", "✔": "passed", "✖": "failed", "✗": "failed", "✘": "failed", "↩": "skipped"}
_TICK = re.compile(r"([✓✔✖✗✘↩])\s*(.*)")
_MOCHA_FAILURE = re.compile(r"\d{1,9}\) ?(.*)")
_MOCHA_TIMING = re.compile(r"\(\d{1,12}ms\)")
_MOCHA_COUNTS = re.compile(r"[ \t]*\d{1,12} passing")
_PHP_SUITE = re.compile(r"(\w.+) \([^()]+\)")
_SYMPY_STATUSES = {"ok": "passed", "F": "failed", "E": "error"}
_SYMPY_HEADING = re.compile(r"_+ (\S+\.py:\S+) _+")
_JASMINE_FAILURE = re.compile(r"\d{1,9}\)\s(.*)")
_BLANKS = re.compile(r"\s+")
MAX_LINES = 50
"""Maximum number of lines of one failure in which `parse_broken` looks for the test's name and the error."""


@keeps_worst
def parse_maven(log: str, known: Collection[str]) -> Found:
    """Read logs of maven in which each test has its own command, shown as `-Dtest=name`."""
    tests, early = deque[str](), deque[str]()
    for line in map(str.strip, split_lines(log)):
        if named := list(_MAVEN_TEST.finditer(line)):
            tests.append(named[-1][1])
        if status := next((status for end, status in _MAVEN_STATUSES.items() if line.endswith(end)), None):
            if tests:
                yield tests.popleft(), TestResult(status)
            else:
                early.append(status)
    yield from ((test, TestResult(status)) for test, status in zip(tests, early, strict=False))


@keeps_worst
def parse_gradle(log: str, known: Collection[str]) -> Found:
    """Read logs of gradle: `com.example.Test > method PASSED`, possibly with output between name and status."""
    last = ""
    for line in map(str.strip, split_lines(log)):
        name, _, word = (" " + line).rpartition(" ")
        if word not in _GRADLE_STATUSES:
            last = line if _GRADLE_TEST.fullmatch(line) else last
        elif (test := name.strip() or last) and not test.startswith(">"):
            yield test, TestResult(_GRADLE_STATUSES[word])
            last = ""


@keeps_worst
def parse_mocha(log: str, known: Collection[str]) -> Found:
    """Read logs of mocha's reporter `spec`, up to the totals at the end. Tests are named `outer > inner > test`."""
    return ((" > ".join(path), result) for path, result in _walk(_until_counts(log)))


@keeps_worst
def parse_highlightjs(log: str, known: Collection[str]) -> Found:
    """Read logs of mocha's reporter `spec`. Tests are named by their innermost suite: `suite.test`."""
    return ((".".join(path[-2:]), result) for path, result in _walk(_until_counts(log)))


@keeps_worst
def parse_karma(log: str, known: Collection[str]) -> Found:
    """Read logs of karma between browser start and summary. Tests are named `outer > inner > test`."""
    tree = log.partition("Starting browser")[2].partition("\nSUMMARY:")[0]
    return ((" > ".join(path), result) for path, result in _walk(islice(split_lines(tree), 1, None)))


def _until_counts(log: str) -> Iterator[str]:
    return takewhile(lambda line: not _MOCHA_COUNTS.match(line), split_lines(log))


def _walk(lines: Iterable[str]) -> Iterator[tuple[list[str], TestResult]]:
    """Yield path and result of each test in indented lines; the path lists the test's suites, then its name."""
    suites: list[tuple[int, str]] = []
    for line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if test := _read_test(text):
            yield [*(name for _, name in suites), test[0]], TestResult(test[1])
        elif text and depth >= 2:
            suites = [*((above, name) for above, name in suites if above < depth), (depth, text)]


def _read_test(text: str) -> tuple[str, str] | None:
    """Read the line of a test: `✔ adds (12ms)` → `("adds", "passed")`; failed tests have a number instead of a tick."""
    if tick := _TICK.fullmatch(text):
        return _MOCHA_TIMING.sub("", tick[2]).strip(), _TICKS[tick[1]]
    if numbered := _MOCHA_FAILURE.fullmatch(text):
        return _MOCHA_TIMING.sub("", numbered[1]).strip(), "failed"
    return None


@keeps_worst
def parse_phpunit(log: str, known: Collection[str]) -> Found:
    """Read logs of phpunit's `--testdox`. Tests are named `Suite > does a thing`."""
    suite = ""
    for line in split_lines(log):
        if named := _PHP_SUITE.fullmatch(line):
            suite = named[1]
        elif tick := _TICK.fullmatch(line.strip()):
            yield f"{suite} > {tick[2]}", TestResult(_TICKS[tick[1]])


@keeps_worst
def parse_sympy(log: str, known: Collection[str]) -> Found:
    """Read logs of sympy: lines `test_eq ok`, and headings of failures. Skips and expected failures get no status."""
    for line in map(str.strip, split_lines(log)):
        if heading := _SYMPY_HEADING.fullmatch(line):
            yield heading[1], TestResult("failed")
        elif line.startswith("test_") and (status := _SYMPY_STATUSES.get(line.rpartition(" ")[2])):
            yield line.split()[0], TestResult(status)


def make_browser_parser(browser: str) -> Parser:
    """Make a parser of karma's lines of failed tests, `Chrome 108.0 (Linux x86_64) suite test FAILED`."""
    pattern = re.compile(rf"{browser} (.*)FAILED")

    @keeps_worst
    def parse(log: str, known: Collection[str]) -> Found:
        found = (pattern.search(line) for line in split_lines(log))
        return ((each[1], TestResult("failed")) for each in found if each and each.end() == len(each.string))

    return parse


@keeps_worst
def parse_numbered(log: str, known: Collection[str]) -> Found:
    """Read the failed tests in logs of jasmine: `1) suite test`."""
    found = map(_JASMINE_FAILURE.match, split_lines(log))
    return ((each[1].strip(), TestResult("failed")) for each in found if each)


@keeps_worst
def parse_broken(log: str, known: Collection[str]) -> Found:
    """Read the failed tests in logs of mocha: `1) suite`, the test's name on the lines below, then the error."""
    lines = list(split_lines(log))
    starts = [at for at, line in enumerate(lines) if re.match(r" {2}\d{1,9}\)", line)]
    for start, following in pairwise([*starts, len(lines)]):
        block = "\n".join(lines[start : min(following, start + MAX_LINES)])
        head, error, _ = block.partition("Error")
        if error:
            yield _BLANKS.sub(" ", head.rpartition("\n")[0].partition(")")[2]).strip(), TestResult("failed")
