"""Running the tests of a task in a sandbox: one way for making tasks, checking them and grading."""

import re
import secrets
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from turnsmith.rewards.logparse import TestResult, parse_log
from turnsmith.rewards.seal import PLUGIN, draw_mark, is_finished, read_sealed, seal, unseal
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.types import ExecResult

TEST_ENV = {
    "COLUMNS": "500",  # pytest cuts the messages of its summary at the width of the terminal
    "LC_ALL": "C.UTF-8",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""What would otherwise differ from machine to machine."""

PYTHON_PYTEST = "python -m pytest"
PLAIN_PYTEST = re.compile(PYTHON_PYTEST + r"( [\w./:,=-]+)*")
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
    is_finished: bool = False
    """Did pytest come to its end?"""

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
    """Seconds that the suite may take."""
    known: frozenset[str] = frozenset()
    """Ids of the tests, where they are known: what the log cuts is completed."""


Prepare = Callable[[Sandbox], Coroutine[None, None, None]]


async def leave(sandbox: Sandbox) -> None:
    """The tree is ready as it is."""


async def run_suite(
    provider: SandboxProvider, layers: Sequence[Path], suite: Suite, prepare: Prepare = leave
) -> SuiteReport:
    """Run a suite in a prepared sandbox of its own; again, cold, where pytest did not come to its end in a warm run.

    Raises SandboxError, and what `prepare` raises.
    """
    report = SuiteReport({}, 0, 0.0)
    for run in (run_warm, run_cold) if is_plain(suite) else (run_cold,):
        report = await _run_in_new_sandbox(provider, layers, suite, prepare, run)
        if report.is_finished or report.timed_out:
            break
    return report


async def _run_in_new_sandbox(
    provider: SandboxProvider,
    layers: Sequence[Path],
    suite: Suite,
    prepare: Prepare,
    run: Callable[[Sandbox, Suite], Coroutine[None, None, SuiteReport]],
) -> SuiteReport:
    sandbox = await provider.start(SandboxSpec(tuple(layers), suite.workdir, is_for_tests=True))
    try:
        await prepare(sandbox)
        return await run(sandbox, suite)
    finally:
        await sandbox.stop()


def is_plain(suite: Suite) -> bool:
    """Is there nothing for a shell to do?"""
    return suite.parser == "pytest" and bool(PLAIN_PYTEST.fullmatch(suite.command))


async def run_warm(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run a plain suite in a fork of a process that has imported pytest. Raises SandboxError."""
    mark = draw_mark()
    result = await sandbox.run_pytest(
        [*suite.command.removeprefix(PYTHON_PYTEST).split(), *suite.files],
        plugin=PLUGIN,
        timeout_s=suite.timeout_s,
        stdin=f"{mark}\n".encode(),
        env=TEST_ENV,
    )
    return _report(suite, result, "" if result.truncated else result.output.decode(errors="replace"), mark)


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
        is_finished=is_finished(log, mark),
    )


def _between(output: str, begin: str, end: str) -> str:
    """Only what was printed between the markers counts; without both, the log was cut or the run was, and nothing does."""
    _, opened, rest = output.partition(f"{begin}\n")
    log, closed, _ = rest.partition(f"\n{end}\n")
    return log if opened and closed else ""


def find_test_files(tests: Collection[str]) -> tuple[str, ...]:
    """The files of test ids, sorted: `["tests/test_a.py::test_b"]` → `("tests/test_a.py",)`."""
    return tuple(sorted({test.split("::")[0] for test in tests}))
