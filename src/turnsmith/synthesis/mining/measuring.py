"""Search for tests that fail before a commit's change and pass after the change, by repeated runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.grading.cases import Case, run_tests
from turnsmith.grading.testing import SuiteReport
from turnsmith.types import PYTEST_COMMAND

COMMANDS = (
    (PYTEST_COMMAND, "pytest"),
    (f"{PYTEST_COMMAND} -o addopts=", "pytest"),
    ("python -m unittest -v", "unittest"),
)
"""Pairs (test command, log parser), tried in order: pytest with the repository's options, pytest without them, unittest."""

MAX_ERROR_CHARACTERS = 200
"""Maximum length of a quoted error message."""


@dataclass(frozen=True)
class Measured:
    """Expected tests of a candidate commit, found by test runs before and after its change."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    reason: str
    """Reason for rejecting the candidate, with the last error of the log; "" if it can become a task."""


async def find_command(
    case: Case, gold: str, commands: Sequence[tuple[str, str]] = COMMANDS
) -> tuple[Case, SuiteReport]:
    """Run the tests with the gold patch by one command after another, until a test passes or the run times out.

    Return the case with the last tried command, and the report of its run. Raises PatchRefused, SandboxError, GradingError.
    """
    for command, parser in commands:
        task = case.task.model_copy(update={"test_command": command, "log_parser": parser})
        tried = case.with_task(task)
        report = await run_tests(tried, gold, case.directives, {})
        if report.timed_out or report.with_status("passed"):
            break
    return tried, report


async def measure(case: Case, gold: str, first: SuiteReport, *, repeats: int) -> Measured:
    """Run the tests `repeats` times without and with the gold patch, and find the expected tests.

    `first` is the report of a run with the patch. The function stops at the first reason for rejection. Raises
    PatchRefused, SandboxError, GradingError.
    """
    after, before = [first], list[SuiteReport]()
    for number in range(repeats):
        if number:
            after.append(await run_tests(case, gold, case.directives, {}))
        if fault := _find_fault(after):
            return Measured((), (), fault)
        before.append(await run_tests(case, "", case.directives, {}))
        measured = compare(before, after)
        if measured.reason:
            break
    return measured


def _find_fault(after: Sequence[SuiteReport]) -> str:
    report = after[0]
    if any(report.timed_out for report in after):
        return "tests too slow"
    if report.plugin_fault:
        return f"no test ran: {report.plugin_fault}"
    if not report.results:
        return f"no test ran: {report.last_error[:MAX_ERROR_CHARACTERS]}"
    if report.with_status("passed"):
        return ""
    return f"no test passes after the change: {report.last_error[:MAX_ERROR_CHARACTERS]}"


def compare(before: Sequence[SuiteReport], after: Sequence[SuiteReport]) -> Measured:
    """Find the expected tests: those that passed in every run after the change, and in all or in no run before the change."""
    tests = after[0].with_status("passed")
    steady = [test for test in tests if all(report.status(test) == "passed" for report in after)]
    passes = {test: [report.status(test) == "passed" for report in before] for test in steady}
    fixed = tuple(test for test in steady if not any(passes[test]))
    kept = tuple(test for test in steady if all(passes[test]))
    error = before[0].last_error[:MAX_ERROR_CHARACTERS]
    reasons = {
        "tests too slow": any(report.timed_out for report in before),
        "no test fails before the change": not fixed,
        f"no test passes before the change: {error}": not kept,
    }
    return Measured(fixed, kept, next((reason for reason, is_so in reasons.items() if is_so), ""))
