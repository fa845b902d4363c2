"""From the log of a test run to the status of each test.

A test listed twice takes its worst status: a test that passed and then failed in its teardown has failed, and a line that
a test printed to flatter itself changes nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from turnsmith.errors import UsageError

STATUSES = {
    "PASSED": "passed",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "SKIPPED": "skipped",
    "FAILED": "failed",
    "ERROR": "error",
}
"""Words of pytest, and what they mean."""
SEVERITY = list(STATUSES.values())
"""From best to worst."""

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
HEADING = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*)")


@dataclass(frozen=True)
class TestResult:
    """What the log says of one test."""

    __test__ = False  # pytest would take the name for a test class

    status: str
    """`passed`, `xfailed`, `xpassed`, `skipped`, `failed` or `error`."""
    message: str = ""
    """First line of the failure, e.g. `AssertionError: assert 3 == 4`; empty for a pass."""


Found = Iterable[tuple[str, TestResult]]
Results = dict[str, TestResult]
Parser = Callable[[str, Collection[str]], Results]
"""Log and the test ids known beforehand → result of each test in the log."""


def parse_log(log: str, parser: str, known: Collection[str] = ()) -> Results:
    """Read a log with the named parser; `known` test ids settle where an id ends. Raises UsageError for an unknown name."""
    if parser not in PARSERS:
        raise UsageError(f"unknown log_parser {parser!r}: use one of {', '.join(PARSERS)}")
    return PARSERS[parser](clean(log), known)


def clean(log: str) -> str:
    """The log without what a terminal would obey, and with one way to end a line: nothing is hidden by being overwritten."""
    return ESCAPE.sub("", log).replace("\r\n", "\n").replace("\r", "\n")


def keep_worst(found: Found) -> Results:
    """Test → its worst result, and of equal ones the first."""
    results: Results = {}
    for name, result in found:
        if name not in results or SEVERITY.index(result.status) > SEVERITY.index(results[name].status):
            results[name] = result
    return results


def parse_pytest(log: str, known: Collection[str]) -> Results:
    """The short test summary of `pytest -rA`, e.g. `FAILED tests/test_a.py::test_b[x - y] - assert 1 == 2`."""
    summary = SUMMARY.search(log)
    if not summary:
        return {}
    text = log[summary.end() :]
    results = parse_lines(text, known)
    return results | _blame_parents(SUBTEST.findall(text), {*results, *known})


def _blame_parents(lines: Iterable[str], names: Collection[str]) -> Results:
    """A test fails with its subtests, though pytest lists it as passed: `[message] (i=1) a.py::T::t - assert 1 == 2`.

    Every name in the line is blamed, since the code under test may have written others into it.
    """
    results = {}
    for line in lines:
        for parent in [name for name in names if f" {name} - " in f" {line} - "] or [line]:
            results[parent] = TestResult("failed", line.partition(f"{parent} - ")[2])
    return results


def parse_lines(log: str, known: Collection[str]) -> Results:
    """Every line of the log that begins with a status word, e.g. `PASSED name`."""
    split = ((word, split_message(rest[:MAX_LINE].rstrip(), known)) for word, rest in LINE.findall(log))
    return keep_worst((name, TestResult(STATUSES[word], message)) for word, (name, message) in split)


def split_message(text: str, known: Collection[str] = ()) -> tuple[str, str]:
    """`"a.py::t[x - y] - boom"` → `("a.py::t[x - y]", "boom")`; a known id wins, else brackets are taken to be closed."""
    cuts = [*(found.span() for found in re.finditer(" - ", text)), (len(text), len(text))]
    for is_it in (known.__contains__, _is_closed):
        for end, start in cuts:
            if is_it(name := text[:end]):
                return name, text[start:]
    return text, ""


def _is_closed(name: str) -> bool:
    return "[" not in name or name.endswith("]")


def parse_verbose(log: str, known: Collection[str]) -> Results:
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


def parse_options(log: str, known: Collection[str]) -> Results:
    """Status first; of a parameter that is a path, only the last part counts: `name[/tmp/x7/a.py]` → `name[/a.py]`."""
    results = parse_verbose(log, known).items()
    return keep_worst((PATH_AS_OPTION.sub(r"[/\1]", name), result) for name, result in results)


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
