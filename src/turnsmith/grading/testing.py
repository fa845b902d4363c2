"""Test runs in a sandbox, used to make, qualify and grade tasks."""

import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from shlex import quote

from turnsmith.errors import PluginFailed
from turnsmith.grading.commands import read_plain
from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.logparse import parse_log
from turnsmith.grading.seal import PLUGIN, Seal, SealedReport, is_finished, read_report, read_sealed, seal, unseal
from turnsmith.sandboxes.base import PytestCommand, Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.tasks.sets.directives import names_file
from turnsmith.types import PYTEST, ExecResult

MISSING = "missing"
"""Status of an expected test that the log does not contain."""

TEST_ENV = {
    "COLUMNS": "500",  # pytest cuts the messages of its summary at the width of the terminal
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""Environment variables that make test runs equal on all machines."""
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

EXCEPTION = re.compile(r"^(?:E +)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)
"""Pattern of the last line of a traceback in a log, which explains a test run whose results have no message."""
CLEAN_STATUSES = "clean_statuses"
"""Column of `Task.meta`: expected test that does not pass on the tree without the bug → its status there."""


def holds(status: str, clean_status: str) -> bool:
    """Return True if a test passed, or has the same status as on the tree without the bug."""
    return status in ("passed", clean_status)


@dataclass(frozen=True)
class SuiteReport:
    """Report of one run of a test suite."""

    results: dict[str, TestResult]
    """Test id → result; empty if the suite printed no summary."""
    exit_code: int
    duration_s: float
    timed_out: bool = False
    limit_s: float = 0.0
    log: str = ""
    is_finished: bool = False
    is_warm: bool = False
    """True if the tests ran in a fork of a process that had already imported pytest."""
    sealed: SealedReport | None = None
    """Signed report of the pytest plugin; None if the suite does not use pytest."""

    @property
    def agrees(self) -> bool:
        """Return True if the exit code of the suite agrees with its log.

        An unexpected success fails unittest but not pytest; if nothing else failed, any exit code agrees.
        """
        statuses = {result.status for result in self.results.values()}
        failed = not statuses.isdisjoint(("failed", "error"))
        is_open = "xpassed" in statuses and not failed
        return not self.timed_out and (is_open or (self.exit_code != 0) == failed)

    @property
    def statuses(self) -> dict[str, str]:
        return {test: result.status for test, result in self.results.items()}

    @property
    def passing(self) -> list[str]:
        """List the tests that passed or are expected failures, which SWE-bench counts as passing."""
        return self.with_status("passed", "xfailed", "xpassed")

    @property
    def last_line(self) -> str:
        """Return the last line of the log, which gives the reason if no test ran."""
        return self.log.strip().rpartition("\n")[2]

    @property
    def last_error(self) -> str:
        """Return the message of the last failed test or, if there is none, the log's last exception or last line."""
        messages = [result.message for result in self.results.values() if result.status in ("failed", "error")]
        found = [*EXCEPTION.findall(self.log), *filter(None, messages)]
        return found[-1] if found else self.last_line

    @property
    def plugin_fault(self) -> str:
        """Return the reason why the grader's plugin could not report the run; empty if it could, or if time ran out."""
        if self.timed_out or not self.sealed:
            return ""
        if not self.sealed.is_loaded:
            return f"the grader's pytest plugin did not load: {self.last_error}"
        return f"the grader's pytest plugin crashed: {self.sealed.crash}" if self.sealed.crash else ""

    def status(self, test: str) -> str:
        return self.results[test].status if test in self.results else MISSING

    def with_status(self, *statuses: str) -> list[str]:
        """List the tests with one of these statuses, in the order of the log."""
        return [test for test, result in self.results.items() if result.status in statuses]


@dataclass(frozen=True)
class Suite:
    """Test suite of a repository: command, test files and settings."""

    command: str
    files: tuple[str, ...]
    workdir: str = "/testbed"
    parser: str = PYTEST
    timeout_s: float = 30.0
    known: frozenset[str] = frozenset()
    """Known test ids, which show where an id ends and a message begins in a line of the log."""
    image: str = ""
    """Container image; empty for none."""
    environment: Path | None = None
    """Python environment of the suite; None for Turnsmith's Python."""

    @property
    def is_pytest(self) -> bool:
        """Return True if the suite runs by pytest, whose report can be signed."""
        return self.parser == PYTEST

    @property
    def plain_command(self) -> PytestCommand | None:
        """Return the parsed test command if it needs no shell and runs with Turnsmith's Python, else None."""
        return read_plain(self.command) if self.is_pytest and not self.environment else None

    @property
    def variables(self) -> dict[str, str]:
        """Return the tests' environment variables. With Turnsmith's Python, one keeps pytest from loading installed plugins."""
        return {**TEST_ENV, **({} if self.environment or self.image else NO_PLUGINS)}


Prepare = Callable[[Sandbox], Coroutine[None, None, None]]


async def run_suite(
    provider: SandboxProvider,
    layers: Sequence[Path],
    suite: Suite,
    prepare: Prepare | None = None,
    *,
    is_cold: bool = False,
) -> SuiteReport:
    """Run a suite in a new sandbox, if possible in a fork of a process that has already imported pytest.

    If pytest does not finish in the fork, or with `is_cold`, use a new interpreter. Raises SandboxError, and the errors
    of `prepare`.
    """
    run = run_warm if suite.plain_command and not is_cold else run_cold
    spec = SandboxSpec(tuple(layers), suite.workdir, True, suite.image, suite.environment)
    async with started(provider, spec) as sandbox:
        if prepare:
            await prepare(sandbox)
        report = await run(sandbox, suite)
    if run is run_cold or report.is_finished or report.timed_out:
        return report
    return await run_suite(provider, layers, suite, prepare, is_cold=True)


async def run_warm(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run a suite without shell in a fork of a process that has already imported pytest. Raises SandboxError."""
    command, secrets = suite.plain_command, Seal()
    if command is None:
        raise ValueError(f"{suite.command!r} needs a shell")
    arguments, variables = (*command.arguments, *suite.files), {**suite.variables, **command.variables}
    command = replace(command, arguments=arguments, variables=variables)
    result = await sandbox.run_pytest(command, plugin=PLUGIN, timeout_s=suite.timeout_s, stdin=secrets.stdin)
    return _report(suite, result, "" if result.truncated else result.output.decode(errors="replace"), secrets)


async def run_cold(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run the test command in a shell. Raises SandboxError.

    For pytest, only lines with the secret mark count. Code under test can forge the log of every other runner.
    """
    begin, end, secrets = f"begin-{token_hex(8)}", f"end-{token_hex(8)}", Seal()
    line = f"{suite.command} {' '.join(quote(file) for file in suite.files)}"
    script = f"echo {begin}; {seal(line) if suite.is_pytest else line}; code=$?; echo; echo {end}; exit $code"
    result = await sandbox.exec(script, timeout_s=suite.timeout_s, stdin=secrets.stdin, env=suite.variables)
    return _report(suite, result, _between(result.output.decode(errors="replace"), begin, end), secrets)


def _report(suite: Suite, result: ExecResult, log: str, secrets: Seal) -> SuiteReport:
    return SuiteReport(
        results=parse_log(read_sealed(log, secrets.mark) if suite.is_pytest else log, suite.parser, suite.known),
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        timed_out=result.timed_out,
        limit_s=suite.timeout_s,
        log=unseal(log, secrets.mark),
        is_finished=is_finished(log, secrets.mark),
        is_warm=result.is_warm,
        sealed=read_report(result.report, secrets.key) if suite.is_pytest else None,
    )


def _between(output: str, begin: str, end: str) -> str:
    """Return the output between two marker lines; empty if one is missing, because the log was cut."""
    _, opened, rest = output.partition(f"{begin}\n")
    log, closed, _ = rest.partition(f"\n{end}\n")
    return log if opened and closed else ""


def check_plugin(report: SuiteReport) -> SuiteReport:
    """Return the report unchanged. Raises PluginFailed if the grader's plugin could not write the signed report."""
    if report.plugin_fault:
        raise PluginFailed(report.plugin_fault)
    return report


def find_test_files(tests: Collection[str]) -> tuple[str, ...]:
    """List the files of pytest ids: `["tests/test_a.py::b", "test_x (m.T)"]` → `("tests/test_a.py",)`."""
    return tuple(sorted({test.split("::")[0] for test in tests if names_file(test)}))
