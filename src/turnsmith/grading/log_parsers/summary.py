"""Log parsers of pytest: short summaries, and lines that begin or end with a status."""

import re
from collections.abc import Collection, Iterable

from turnsmith.grading.log_parsers.base import MAX_LINE, STATUSES, Found, Results, TestResult, keeps_worst, split_lines

WORDS = "|".join(STATUSES)
LINE = re.compile(rf"^({WORDS}) +(\S.*)$", re.MULTILINE)
STATUS = re.compile(rf"(?<! ) +({WORDS})(?= |$)")
PROGRESS = re.compile(r"(?<! ) +\[ *\d+%\]$")
TIMING = re.compile(r"(?<! ) *[\[(]\d+(?:\.\d+)? *(?:s|ms|sec|seconds?)[\])]$", re.MULTILINE)
SUBTEST = re.compile(r"^SUBFAIL(?:ED)?(\S.*| .*)$", re.MULTILINE)
SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
FOLDED = re.compile(r"\[\d+\] ")
COUNTED_BY_SEABORN = ("passed", "failed")
PATH_AS_OPTION = re.compile(r"\[/(?!/)[^\]*\s]*/([^/\]*\s]*)\]$")


def parse_pytest(log: str, known: Collection[str]) -> Results:
    """Read the short test summary of `pytest -rA`: `FAILED a.py::b[x - y] - boom`. Ids in `known` show where messages begin."""
    summary = SUMMARY.search(log)
    if not summary:
        return {}
    text = log[summary.end() :]
    results = parse_lines(text, known)
    return results | _blame_parents(SUBTEST.findall(text), {*results, *known})


def _blame_parents(lines: Iterable[str], names: Collection[str]) -> Results:
    """Mark the tests of failed subtests as failed: `[message] (i=1) a.py::T::t - assert 1 == 2`.

    If the line contains the ids of several tests, all of them fail, because code under test can write ids into it.
    """
    results = {}
    for line in lines:
        for parent in [name for name in names if f" {name} - " in f" {line} - "] or [line]:
            results[parent] = TestResult("failed", line.partition(f"{parent} - ")[2])
    return results


@keeps_worst
def parse_lines(log: str, known: Collection[str]) -> Found:
    """Read every line that begins with a status word, e.g. `PASSED name`, but not `SKIPPED [2] file:line: reason`."""
    listed = (found for found in LINE.findall(log) if not FOLDED.match(found[1]))
    split = ((word, split_message(rest[:MAX_LINE].rstrip(), known)) for word, rest in listed)
    return ((name, TestResult(STATUSES[word], message)) for word, (name, message) in split)


def split_message(text: str, known: Collection[str] = ()) -> tuple[str, str]:
    """Split a summary line into id and message: `"a.py::t[x - y] - boom"` → `("a.py::t[x - y]", "boom")`."""
    cuts = [*(found.span() for found in re.finditer(" - ", text)), (len(text), len(text))]
    for is_it in (known.__contains__, _is_closed):
        for end, start in cuts:
            if is_it(name := text[:end]):
                return name, text[start:]
    return text, ""


def _is_closed(name: str) -> bool:
    return "[" not in name or name.endswith("]")


@keeps_worst
def parse_verbose(log: str, known: Collection[str]) -> Found:
    """Read lines that begin or end with a status word: `PASSED name (0.1s)`, `name PASSED [ 50%]`. Timings are cut off."""
    text = TIMING.sub("", log)
    yield from parse_lines(text, known).items()
    found = filter(None, map(_read_last, split_lines(text)))
    yield from (each for each in found if not LINE.match(each[0]))


def _read_last(line: str) -> tuple[str, TestResult] | None:
    """Read a status at the end of a line: `name SKIPPED (no disk) [ 50%]` → `("name", skipped)`."""
    line = PROGRESS.sub("", line.rstrip())
    for found in STATUS.finditer(line):
        name, rest = line[: found.start()], line[found.end() :]
        if name and not name[0].isspace() and (not rest or (rest.lstrip().startswith("(") and rest.endswith(")"))):
            return name, TestResult(STATUSES[found[1]])
    return None


@keeps_worst
def parse_options(log: str, known: Collection[str]) -> Found:
    """Read verbose logs, keeping only the last part of paths in parameters: `name[/tmp/x7/a.py]` → `name[/a.py]`."""
    results = parse_verbose(log, known).items()
    return ((PATH_AS_OPTION.sub(r"[/\1]", name), result) for name, result in results)


def parse_v2(log: str, known: Collection[str]) -> Results:
    """Read logs as SWE-bench's parser `pytest_v2` does, which misses skips and expected failures that have a reason."""
    found = parse_verbose(log, known).items()
    return {name: result for name, result in found if not (result.message and result.status in ("xfailed", "skipped"))}


def parse_seaborn(log: str, known: Collection[str]) -> Results:
    """Read only the passed and failed tests in a log, as SWE-bench does for seaborn."""
    return {name: result for name, result in parse_verbose(log, known).items() if result.status in COUNTED_BY_SEABORN}


def parse_matplotlib(log: str, known: Collection[str]) -> Results:
    """Read matplotlib's logs; replace enumeration members by numbers, as old versions of Python print them."""
    return parse_lines(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"), known)
