"""Table of filters that drop task rows. A filter's rule decides from a row and the row's qualification record.

If the data that a rule needs is missing, the rule returns `unknown`. Such rows are kept by default.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from turnsmith.curation.rows import TaskRow
from turnsmith.curation.scores import DIFFICULTY, NAMES, read_codes, read_scores
from turnsmith.errors import UsageError
from turnsmith.git.patches import count_files, count_lines
from turnsmith.tasks.vagueness import find_vagueness

IMPLICIT_NAMES = "B2"
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^(?: {4}|\t)[^\n]*|https?://\S+", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[^\W\d_]+")
COMMON = frozenset(
    "a about after all also an and any are as at be because been before but by can could did do does doesn don error for "
    "from get has have how i if in into is isn issue it its just like make more my no not of on one only or other our out "
    "should so some still than that the their them then there these they this to up use used using want was we what when "
    "where which while will with without work works would you your".split()
)
MIN_WORDS = 8


class FilterDecision(StrEnum):
    """Decision of a filter about a row: keep, drop or unknown."""

    STAYS = "stays"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


Judgement = tuple[FilterDecision, str]
"""Decision of a filter about a row, and the reason for it; the reason is empty if the row is kept."""
STAYS: Judgement = (FilterDecision.STAYS, "")
Measure = Callable[[TaskRow], float | None]


@dataclass(frozen=True)
class Filter:
    """Named rule that drops task rows."""

    name: str
    drops: str
    """Description of the rows that the filter drops; `{limit}` stands for its limit."""
    why: str
    judge: Callable[[TaskRow, float], Judgement]
    limit: float | None = None
    """Number with which the rule compares a row, set by `name=value`; None if the filter needs no number."""

    def look(self, row: TaskRow) -> Judgement:
        return self.judge(row, self.limit or 0)

    def describe(self) -> str:
        return self.drops.format(limit=f"{self.limit or 0:g}")

    def __str__(self) -> str:
        return self.name if self.limit is None else f"{self.name}={self.limit:g}"


def at_most(
    name: str, limit: float, measure: Measure, unit: str, why: str = "too large a change", drops: str = ""
) -> Filter:
    """Build a filter that drops rows for which `measure` returns a number (in `unit`) above the limit."""
    return Filter(name, drops or f"more than {{limit}} {unit}", why, bounded(measure, unit, operator.le), limit)


def at_least(name: str, limit: float, measure: Measure, unit: str, why: str, drops: str) -> Filter:
    """Build a filter that drops rows for which `measure` returns a number (in `unit`) below the limit."""
    return Filter(name, drops, why, bounded(measure, unit, operator.ge), limit)


def bounded(measure: Measure, unit: str, fits: Callable[[float, float], bool]) -> Callable[[TaskRow, float], Judgement]:
    """Build a rule that drops a row unless `fits(measure(row), limit)`. Rows without the measured data are judged as unknown."""

    def judge(row: TaskRow, limit: float) -> Judgement:
        value = measure(row)
        if value is None:
            return FilterDecision.UNKNOWN, f"no {unit}"
        return STAYS if fits(value, limit) else (FilterDecision.DROPPED, f"{value:g} {unit}")

    return judge


def count_modified(name: str, count: Callable[[str], int]) -> Measure:
    """Build a function that returns the count `name` from a row's metadata or, if missing, `count(gold patch)`."""

    def measure(row: TaskRow) -> float | None:
        own = row.meta.get(name)
        if isinstance(own, int | float):
            return own
        patch = row.text("patch")
        return None if patch is None else count(patch)

    return measure


def count_words(column: str) -> Measure:
    """Build a function that counts the words in a text column of a row."""

    def measure(row: TaskRow) -> float | None:
        text = row.text(column)
        return None if text is None else len(text.split())

    return measure


def count_tests(column: str) -> Measure:
    """Build a function that counts the tests in a list column of a row."""

    def measure(row: TaskRow) -> float | None:
        tests = row.tests(column)
        return None if tests is None else len(tests)

    return measure


def measure_english(text: str) -> float | None:
    """Return the share, 0 to 1, of a text's words outside of code that are common English words; None if it has too few words."""
    words = [word.lower() for word in WORD.findall(CODE.sub(" ", text))]
    if len(words) < MIN_WORDS:
        return None
    return sum(word in COMMON for word in words) / len(words)


def judge_issue(row: TaskRow, limit: float) -> Judgement:
    """Drop a row whose issue is a few words, a list of commits or release notes. `limit` is not used."""
    text = row.text("problem_statement")
    if text is None:
        return FilterDecision.UNKNOWN, "no issue"
    reason = find_vagueness(text)
    return (FilterDecision.DROPPED, reason) if reason else STAYS


def judge_scores(row: TaskRow, limit: float) -> Judgement:
    """Drop a row if one of its LLM scores is at or above the limit. If none is, but one is missing, the row is unknown."""
    scores = read_scores(row)
    if bad := [f"{name} {value:g}" for name, value in scores.items() if value >= limit]:
        return FilterDecision.DROPPED, ", ".join(bad)
    missing = [name for name in NAMES if name not in scores]
    return (FilterDecision.UNKNOWN, f"no {missing[0]}") if missing else STAYS


def judge_names(row: TaskRow, limit: float) -> Judgement:
    """Drop a row whose tests need names that only the gold patch defines, as qualification or SWE-rebench V2's codes report."""
    codes = read_codes(row)
    if IMPLICIT_NAMES in codes:
        return FilterDecision.DROPPED, f"code {IMPLICIT_NAMES}"
    if row.facts and row.facts.missing_names:
        return FilterDecision.DROPPED, "missing names: " + ", ".join(row.facts.missing_names)
    return STAYS if codes or (row.facts and row.facts.num_repeats) else (FilterDecision.UNKNOWN, "no run on record")


def judge_steadiness(row: TaskRow, limit: float) -> Judgement:
    """Drop a row with flaky tests; unknown if qualification ran the row's tests fewer times than `limit`."""
    if row.facts and row.facts.flaky_tests:
        return FilterDecision.DROPPED, f"{row.facts.flaky_tests[0]} in {row.facts.num_repeats} repeats"
    repeats = row.facts.num_repeats if row.facts else 0
    return STAYS if repeats and repeats >= limit else (FilterDecision.UNKNOWN, f"{repeats} repeats on record")


def judge_qualification(row: TaskRow, limit: float) -> Judgement:
    """Drop a row that qualification rejected. The judgement is unknown if the row has no qualification record."""
    if not row.facts:
        return FilterDecision.UNKNOWN, "no record"
    return STAYS if row.facts.is_qualified else (FilterDecision.DROPPED, row.facts.verdict)


FILTERS = {
    each.name: each
    for each in (
        Filter(
            "missing-names",
            "tests that fail because names exist only in the gold patch (AttributeError, ImportError)",
            "names cannot be guessed from the issue",
            judge_names,
        ),
        at_most("max-files", 7, count_modified("num_modified_files", count_files), "modified files"),
        at_most("max-lines", 499, count_modified("num_modified_lines", count_lines), "modified lines"),
        Filter(
            "llm-score",
            "any LLM score of {limit} or worse",
            "an unclear issue, too hard, or flawed tests",
            judge_scores,
            3,
        ),
        Filter(
            "flaky",
            "tests that disagree over {limit} repeats",
            "flaky tests make the reward random",
            judge_steadiness,
            50,
        ),
        at_most("max-patch-words", 500, count_words("patch"), "words of patch"),
        at_least(
            "english",
            0.15,
            lambda row: measure_english(row.text("problem_statement") or ""),
            "of the issue is common English",
            "prompts and models are English",
            "issues with less than a share of {limit} common English words in their prose",
        ),
        at_least(
            "min-issue-words",
            16,
            count_words("problem_statement"),
            "words of issue",
            "the issue says too little",
            "issues of fewer than {limit} words",
        ),
        at_most("max-issue-words", 1000, count_words("problem_statement"), "words of issue", "the issue says too much"),
        Filter(
            "vague",
            "issues that are a few words, a list of commits or release notes",
            "the issue says too little",
            judge_issue,
        ),
        Filter(
            "difficulty",
            "a difficulty of {limit} or more",
            "hours of work for a person",
            bounded(lambda row: read_scores(row).get(DIFFICULTY), "for difficulty", operator.lt),
            3,
        ),
        at_most("max-fail-to-pass", 50, count_tests("FAIL_TO_PASS"), "FAIL_TO_PASS tests"),
        at_most(
            "fail-to-fail",
            0,
            count_tests("FAIL_TO_FAIL"),
            "FAIL_TO_FAIL tests",
            "a suite that is broken for another reason",
            "more than {limit} tests that fail before and after the gold patch",
        ),
        Filter("qualified", "tasks that `turnsmith tasks qualify` rejected", "see the verdict", judge_qualification),
    )
}
BUNDLES: dict[str, tuple[str, ...]] = {
    "complexity": ("max-files", "max-lines"),
    "paper": ("missing-names", "complexity", "llm-score", "flaky"),
    "leaderboard": (
        "missing-names",
        "max-files=3",
        "max-patch-words",
        "english",
        "min-issue-words",
        "max-issue-words",
        "difficulty",
        "max-fail-to-pass",
    ),
}
"""Name that stands for several filters → these filters. `paper` follows arXiv 2508.03501, `leaderboard` SWE-rebench."""


def choose_filters(wanted: Sequence[str]) -> list[Filter]:
    """Parse filters `NAME` or `NAME=value`, and expand bundles. The last limit of a repeated filter counts. Raises UsageError."""
    chosen: dict[str, Filter] = {}
    for text in _unfold(wanted):
        found = parse_filter(text)
        chosen[found.name] = found
    if not chosen:
        raise UsageError(f"no filter is given: name one of {', '.join([*BUNDLES, *FILTERS])}")
    return list(chosen.values())


def _unfold(wanted: Sequence[str]) -> list[str]:
    return [each for text in wanted for each in (_unfold(BUNDLES[text]) if text in BUNDLES else [text])]


def parse_filter(text: str) -> Filter:
    """Parse one filter, such as `max-files=3`. Raises UsageError."""
    name, has_value, value = text.partition("=")
    if name in BUNDLES:
        raise UsageError(
            f"filter {text!r}: {name} stands for {', '.join(BUNDLES[name])}: set the limits of these filters"
        )
    if name not in FILTERS:
        raise UsageError(f"no filter {name!r}: choose from {', '.join([*BUNDLES, *FILTERS])}")
    found = FILTERS[name]
    if not has_value:
        return found
    if found.limit is None:
        raise UsageError(f"filter {text!r}: {name} has no limit to set: leave out ={value}")
    try:
        limit = float(value)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < float("inf"):
        raise UsageError(f"filter {text!r}: give a number of 0 or more, as in {found}")
    return replace(found, limit=limit)
