"""The text of an issue: a template over what the failing tests say, never over the diff; or what an endpoint makes of both.

Bugs are many in packages, whose templates name test functions, and few in practice tasks, where templates hold back as asked.
"""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence

from turnsmith.grading.testing import SuiteReport, find_test_files
from turnsmith.types import Task

IssueWriter = Callable[[Task], Awaitable[str]]
"""From a task, whose issue is that of the template, to the text of its issue."""
MAX_NAMED = 5
"""Tests, or functions of them, that an issue names."""
MAX_ID_CHARACTERS = 120
MAX_MESSAGE_CHARACTERS = 200
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def write_issue(report: SuiteReport, *, vagueness: float, known_failures: Collection[str] = ()) -> str:
    """A few lines of plain text; `vagueness` says how much is held back.

    Up to 1/3 the failing tests with their messages, up to 2/3 without messages, above that only their files. For example
    `One test fails:` and `tests/test_a.py::test_b: assert 3 == 4`.
    """
    failing = find_failing(report, known_failures)
    lines = [f"{test}: {shorten(report.results[test].message)}".removesuffix(": ") for test in failing]
    if vagueness > 1 / 3:
        lines = failing
    if vagueness > 2 / 3:
        lines = list(find_test_files(failing))
    more = [f"and {len(lines) - MAX_NAMED} more"] if len(lines) > MAX_NAMED else []
    return render(len(failing), [*lines[:MAX_NAMED], *more])


def describe_failures(report: SuiteReport, known_failures: Collection[str] = ()) -> str:
    """A few lines of plain text, however many tests fail: one test of each function, with what it says.

    For example `tests/test_a.py::test_b[3]: assert 3 == 4 (and 71 more of this function)`.
    """
    failing, functions = find_failing(report, known_failures), defaultdict[str, list[str]](list)
    for test in failing:
        functions[test.partition("[")[0]].append(test)
    named = [_describe(report, tests) for tests in list(functions.values())[:MAX_NAMED]]
    num_left = len(functions) - len(named)
    more = [f"and tests of {num_left} more functions" if num_left > 1 else "and tests of one more function"]
    return render(len(failing), [*named, *(more if num_left else [])])


def find_failing(report: SuiteReport, known_failures: Collection[str]) -> list[str]:
    """The tests that fail and did not before, in the order of the log."""
    return [test for test in report.with_status("failed", "error") if test not in known_failures]


def render(num_failing: int, lines: Sequence[str]) -> str:
    """A headline over lines."""
    headline = "One test fails:" if num_failing == 1 else f"{num_failing} tests fail:"
    return "\n".join([headline, "", *lines]) + "\n"


def _describe(report: SuiteReport, tests: list[str]) -> str:
    name, message = cut(tests[0]), shorten(report.results[tests[0]].message)
    more = f" (and {len(tests) - 1} more of this function)" if len(tests) > 1 else ""
    return f"{name}: {message}".removesuffix(": ") + more


def cut(test: str) -> str:
    """An id of bounded length."""
    return test if len(test) <= MAX_ID_CHARACTERS else test[: MAX_ID_CHARACTERS - 1] + "…"


def shorten(message: str) -> str:
    """One line of bounded length; memory addresses, which differ from run to run, become `0x…`."""
    text = ADDRESS.sub("0x…", message)
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"


async def keep_template(task: Task) -> str:
    """The issue as it is."""
    return task.problem_statement
