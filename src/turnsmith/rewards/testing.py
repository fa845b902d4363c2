"""Running the tests of a task in a sandbox: one way for making tasks, checking them and grading."""

import re
import secrets
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from shlex import quote
from typing import TypeVar

from turnsmith.rewards.logparse import TestResult, parse_log
from turnsmith.rewards.seal import PLUGIN, draw_mark, is_finished, read_sealed, seal, unseal
from turnsmith.sandboxes.base import Sandbox
from turnsmith.types import ExecResult

TEST_ENV = {
    "COLUMNS": "500",  # pytest cuts the messages of its summary at the width of the terminal
    "LC_ALL": "C.UTF-8",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""What would otherwise differ from machine to machine."""

PLAIN_PYTEST = re.compile(r"python -m pytest( [\w./:,=-]+)*")
"""A test command in which a shell would find nothing to do."""

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


@dataclass(frozen=True)
class Suite:
    """How to run the tests of a repository."""

    command: str
    files: tuple[str, ...]
    workdir: str = "/testbed"
    parser: str = "pytest"
    timeout_s: float = 30.0
    """A suite slower than this is no use for training."""
    known: frozenset[str] = frozenset()
    """Ids of the tests, where they are known: what the log cuts is completed."""


Run = Callable[[Sandbox, Suite], Coroutine[None, None, SuiteReport]]
Verdict = TypeVar("Verdict")


async def run_warm_or_cold(judge: Callable[[Run], Coroutine[None, None, Verdict]]) -> Verdict:
    """Judge by a warm run; where pytest did not come to its end in it, by a cold one in another sandbox."""
    try:
        return await judge(run_warm)
    except _UnfinishedError:
        return await judge(run_cold)


class _UnfinishedError(Exception):
    """A warm run ended otherwise than by the end of pytest or of its time."""


async def run_warm(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run the tests in a fork of a process that has imported pytest. Raises SandboxError."""
    if suite.parser != "pytest" or not PLAIN_PYTEST.fullmatch(suite.command):
        return await run_cold(sandbox, suite)
    mark = draw_mark()
    result = await sandbox.run_pytest(
        [*suite.command.split()[3:], *suite.files],
        plugin=PLUGIN,
        timeout_s=suite.timeout_s,
        stdin=f"{mark}\n".encode(),
        env=TEST_ENV,
    )
    log = "" if result.truncated else result.output.decode(errors="replace")
    if not (result.timed_out or is_finished(log, mark)):
        raise _UnfinishedError
    return _report(suite, result, log, mark)


async def run_cold(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run the test command as it stands, by a shell. Raises SandboxError.

    For the parser `pytest` only sealed lines count; what other parsers read, the code under test can forge.
    """
    begin, end, mark = f"begin-{secrets.token_hex(8)}", f"end-{secrets.token_hex(8)}", draw_mark()
    line = f"{suite.command} {' '.join(quote(file) for file in suite.files)}"
    script = f"echo {begin}; {seal(line) if suite.parser == 'pytest' else line}; code=$?; echo; echo {end}; exit $code"
    result = await sandbox.exec(script, timeout_s=suite.timeout_s, stdin=f"{mark}\n".encode(), env=TEST_ENV)
    return _report(suite, result, _between(result.output.decode(errors="replace"), begin, end), mark)


def _report(suite: Suite, result: ExecResult, log: str, mark: str) -> SuiteReport:
    return SuiteReport(
        results=parse_log(read_sealed(log, mark) if suite.parser == "pytest" else log, suite.parser, suite.known),
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


def find_test_files(tests: Collection[str]) -> tuple[str, ...]:
    """The files of test ids, sorted: `["tests/test_a.py::test_b"]` → `("tests/test_a.py",)`."""
    return tuple(sorted({test.split("::")[0] for test in tests}))
