"""Issue texts from templates, which quote failing tests and never the diff.

`write_issue` writes issues of practice tasks, more or less vague. `describe_failures` writes issues of bugs in packages,
each of which may break many tests. `EndpointWriter` asks a language model.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from string import Template

from turnsmith.engines.endpoint.ask import ChatEndpoint
from turnsmith.errors import UsageError
from turnsmith.grading.testing import SuiteReport, find_test_files
from turnsmith.types import Task

IssueWriter = Callable[[Task], Awaitable[str]]
"""Function that takes a task whose issue text comes from a template, and returns the final issue text."""
MAX_NAMED = 5
"""Maximum number of tests or test functions that an issue names."""
MAX_ID_CHARACTERS = 120
MAX_MESSAGE_CHARACTERS = 200
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def write_issue(report: SuiteReport, *, vagueness: float, known_failures: Collection[str] = ()) -> str:
    """Write a short issue text that lists the failing tests, without `known_failures`, which also fail without the bug.

    With `vagueness` up to 1/3, the text gives tests and their messages; up to 2/3 only tests; above that only test files.
    Example: `One test fails:` and `tests/test_a.py::test_b: assert 3 == 4`.
    """
    failing = find_failing(report, known_failures)
    lines = failing if vagueness > 1 / 3 else [_name(test, report) for test in failing]
    if vagueness > 2 / 3:
        lines = list(find_test_files(failing))
    more = [f"and {len(lines) - MAX_NAMED} more"] if len(lines) > MAX_NAMED else []
    return render(len(failing), [*lines[:MAX_NAMED], *more])


def describe_failures(report: SuiteReport, known_failures: Collection[str] = ()) -> str:
    """Write a short issue text that quotes one failing test per test function, with its message, and no `known_failures`.

    Example: `tests/test_a.py::test_b[3]: assert 3 == 4 (and 71 more of this function)`.
    """
    failing, functions = find_failing(report, known_failures), defaultdict[str, list[str]](list)
    for test in failing:
        functions[test.partition("[")[0]].append(test)
    named = [_describe(report, tests) for tests in list(functions.values())[:MAX_NAMED]]
    num_left = len(functions) - len(named)
    more = [f"and tests of {num_left} more functions" if num_left > 1 else "and tests of one more function"]
    return render(len(failing), [*named, *(more if num_left else [])])


def find_failing(report: SuiteReport, known_failures: Collection[str]) -> list[str]:
    """List the failing tests that are not known to fail without the bug, in the order of the log."""
    return [test for test in report.with_status("failed", "error") if test not in known_failures]


def render(num_failing: int, lines: Sequence[str]) -> str:
    """Return the text of an issue: a headline with the number of failing tests, then the lines."""
    headline = "One test fails:" if num_failing == 1 else f"{num_failing} tests fail:"
    return "\n".join([headline, "", *lines]) + "\n"


def _describe(report: SuiteReport, tests: list[str]) -> str:
    more = f" (and {len(tests) - 1} more of this function)" if len(tests) > 1 else ""
    return _name(tests[0], report, MAX_ID_CHARACTERS) + more


def _name(test: str, report: SuiteReport, max_id: int | None = None) -> str:
    """Return `test id: message`, the id cut to `max_id` characters. Memory addresses become `0x…`, since they vary by run."""
    message = ADDRESS.sub("0x…", report.results[test].message)
    return f"{_shorten(test, max_id or len(test))}: {_shorten(message, MAX_MESSAGE_CHARACTERS)}".removesuffix(": ")


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


async def keep_template(task: Task) -> str:
    """Return the task's issue from the template, unchanged."""
    return task.problem_statement


PLACEHOLDERS = ("patch", "failures", "repo")
"""Placeholders that a prompt file for issue texts may use."""


@dataclass(frozen=True)
class EndpointWriter:
    """Issue writer that asks a language model. The model sees the patch and the failing tests."""

    endpoint: ChatEndpoint
    prompt: Template

    async def __call__(self, task: Task) -> str:
        """Write an issue text. Raises UsageError if the server refuses or the text is empty, EngineError if no answer comes."""
        question = self.prompt.substitute(patch=task.patch, failures=task.problem_statement, repo=task.repo)
        issue = (await asyncio.to_thread(self.endpoint.ask, question)).strip()
        if not issue:
            raise UsageError(f"{self.endpoint.url} wrote no issue for {task.instance_id}: try another prompt or model")
        return issue + "\n"
