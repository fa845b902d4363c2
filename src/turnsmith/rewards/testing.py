"""Running the tests of a task in a sandbox: one way for making tasks, checking them and grading."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from shlex import quote

from turnsmith.rewards.logparse import TestResult, parse_log
from turnsmith.rewards.seal import draw_mark, read_sealed, seal, unseal
from turnsmith.sandboxes.base import Sandbox

TEST_ENV = {
    "COLUMNS": "500",  # pytest cuts the messages of its summary at the width of the terminal
    "LC_ALL": "C.UTF-8",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""What would otherwise differ from machine to machine."""


HOLDS = ("passed", "xfailed", "xpassed")
"""Statuses of a test that holds on a clean tree; an expected failure is one, as in SWE-bench."""

CLEAN_STATUSES = "clean_statuses"
"""Column of `Task.meta`: expected test → its status on the clean tree, where that is not `passed`."""


def holds(status: str, clean_status: str) -> bool:
    """Does a test hold on a changed tree? The code under test can ask for a skip, so that counts only where it always did."""
    return status in ("passed", clean_status)


@dataclass(frozen=True)
class SuiteReport:
    """What one run of a test suite left."""

    results: dict[str, TestResult]
    """By test id; empty where the suite did not get to its summary."""
    exit_code: int
    duration_s: float
    timed_out: bool = False
    log: str = ""
    """What the tests printed."""

    @property
    def agrees(self) -> bool:
        """Do the exit code and the log tell the same story?"""
        failed = any(result.status in ("failed", "error") for result in self.results.values())
        return not self.timed_out and (self.exit_code != 0) == failed

    @property
    def passing(self) -> list[str]:
        """Ids of the tests that hold."""
        return self.with_status(*HOLDS)

    @property
    def last_line(self) -> str:
        """The last line of the log, which says why no test was run."""
        return self.log.strip().rpartition("\n")[2]

    def status(self, test: str) -> str:
        return self.results[test].status if test in self.results else "missing"

    def with_status(self, *statuses: str) -> list[str]:
        """Ids of the tests with one of these statuses, in the order of the log."""
        return [test for test, result in self.results.items() if result.status in statuses]


async def run_tests(
    sandbox: Sandbox,
    command: str,
    files: Sequence[str],
    *,
    parser: str,
    timeout_s: float,
    known: Collection[str] = (),
) -> SuiteReport:
    """Run the test command on the files, read its log. Raises SandboxError.

    For the parser `pytest` only sealed lines count; what other parsers read, the code under test can forge.
    """
    begin, end, mark = f"begin-{secrets.token_hex(8)}", f"end-{secrets.token_hex(8)}", draw_mark()
    line = f"{command} {' '.join(quote(file) for file in files)}"
    script = f"echo {begin}; {seal(line) if parser == 'pytest' else line}; code=$?; echo; echo {end}; exit $code"
    result = await sandbox.exec(script, timeout_s=timeout_s, stdin=f"{mark}\n".encode(), env=TEST_ENV)
    log = _between(result.output.decode(errors="replace"), begin, end)
    return SuiteReport(
        results=parse_log(read_sealed(log, mark) if parser == "pytest" else log, parser, known),
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        timed_out=result.timed_out,
        log=unseal(log, mark),
    )


def _between(output: str, begin: str, end: str) -> str:
    """Only what was printed between the markers counts; without both, the log was cut or the run was, and nothing does."""
    _, opened, rest = output.partition(f"{begin}\n")
    log, closed, _ = rest.partition(f"\n{end}\n")
    return log if opened and closed else ""


def find_test_files(tests: Collection[str]) -> list[str]:
    """The files of test ids, sorted: `["tests/test_a.py::test_b"]` → `["tests/test_a.py"]`."""
    return sorted({test.split("::")[0] for test in tests})
