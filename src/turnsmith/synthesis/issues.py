"""Issue texts, written from what the failing tests say and from nothing else: never from the diff."""

import re
from collections.abc import Collection

from turnsmith.rewards.results import TestResult
from turnsmith.rewards.testing import SuiteReport, find_test_files

MAX_TESTS = 5
MAX_MESSAGE_CHARACTERS = 200
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def write_issue(report: SuiteReport, *, vagueness: float, known_failures: Collection[str] = ()) -> str:
    """A few lines of plain text; `vagueness` says how much is held back.

    Up to 1/3 the failing tests with their messages, up to 2/3 without messages, above that only their files. For example
    `One test fails:` and `tests/test_a.py::test_b: assert 3 == 4`.
    """
    new = [test for test in report.with_status("failed", "error") if test not in known_failures]
    failing = {test: report.results[test] for test in new}
    lines = _lines(failing, vagueness)
    more = [f"and {len(lines) - MAX_TESTS} more"] if len(lines) > MAX_TESTS else []
    headline = "One test fails:" if len(failing) == 1 else f"{len(failing)} tests fail:"
    return "\n".join([headline, "", *lines[:MAX_TESTS], *more]) + "\n"


def _lines(failing: dict[str, TestResult], vagueness: float) -> list[str]:
    if vagueness > 2 / 3:
        return list(find_test_files(failing))
    if vagueness > 1 / 3:
        return list(failing)
    return [f"{test}: {shorten(result.message)}".removesuffix(": ") for test, result in failing.items()]


def shorten(message: str) -> str:
    """One line of bounded length; memory addresses, which differ from run to run, become `0x…`."""
    text = ADDRESS.sub("0x…", message)
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
