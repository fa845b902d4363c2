"""Running the tests of a task in a sandbox: one way for making tasks, checking them and grading."""

import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from shlex import quote

from turnsmith.errors import PluginFailed
from turnsmith.grading.commands import read_plain
from turnsmith.grading.logparse import TestResult, parse_log
from turnsmith.grading.seal import PLUGIN, Seal, SealedReport, is_finished, read_report, read_sealed, seal, unseal
from turnsmith.sandboxes.base import PytestCommand, Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.tasks.sets.directives import names_file
from turnsmith.types import PYTEST, ExecResult

MISSING = "missing"
"""The status of a test that the log does not have."""

TEST_ENV = {
    "COLUMNS": "500",  # pytest cuts the messages of its summary at the width of the terminal
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""What would otherwise differ from machine to machine."""
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

EXCEPTION = re.compile(r"^(?:E +)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)
"""A line of a log, of pytest or of Python, that ends a traceback."""
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
    limit_s: float = 0.0
    """Seconds that it was given."""
    log: str = ""
    """What the tests printed."""
    is_finished: bool = False
    """Did pytest come to its end?"""
    is_warm: bool = False
    """Did it run in a fork of a process that had imported pytest?"""
    sealed: SealedReport | None = None
    """What came by the descriptor; None where the suite is not pytest's."""

    @property
    def agrees(self) -> bool:
        """Do the exit code and the log tell the same story?

        An unexpected success fails a run of unittest, and no run of pytest that is not strict: where only that stands out, both
        codes agree.
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
        """Ids of the tests that hold on a clean tree; an expected failure does, as in SWE-bench."""
        return self.with_status("passed", "xfailed", "xpassed")

    @property
    def last_line(self) -> str:
        """The last line of the log, which says why no test was run."""
        return self.log.strip().rpartition("\n")[2]

    @property
    def last_error(self) -> str:
        """The message of the last test that broke, or else the last exception in the log, or else its last line."""
        messages = [result.message for result in self.results.values() if result.status in ("failed", "error")]
        found = [*EXCEPTION.findall(self.log), *filter(None, messages)]
        return found[-1] if found else self.last_line

    @property
    def plugin_fault(self) -> str:
        """The reason why the grader's plugin could not report the run; empty where it could, or had no time."""
        if self.timed_out or not self.sealed:
            return ""
        if not self.sealed.is_loaded:
            return f"the grader's pytest plugin did not load: {self.last_error}"
        return f"the grader's pytest plugin crashed: {self.sealed.crash}" if self.sealed.crash else ""

    def status(self, test: str) -> str:
        return self.results[test].status if test in self.results else MISSING

    def with_status(self, *statuses: str) -> list[str]:
        """Ids of the tests with one of these statuses, in the order of the log."""
        return [test for test, result in self.results.items() if result.status in statuses]


@dataclass(frozen=True)
class Suite:
    """How to run the tests of a repository."""

    command: str
    files: tuple[str, ...]
    workdir: str = "/testbed"
    parser: str = PYTEST
    timeout_s: float = 30.0
    """Seconds that the suite may take."""
    known: frozenset[str] = frozenset()
    """Ids of the tests, where they are known: what the log cuts is completed."""
    image: str = ""
    """Image of the system around the tree."""
    environment: Path | None = None
    """Python and packages of its own."""

    @property
    def is_pytest(self) -> bool:
        """Is the run pytest's, so that it can be sealed?"""
        return self.parser == PYTEST

    @property
    def plain_command(self) -> PytestCommand | None:
        """The command in parts, where it needs no shell and runs with our Python."""
        return read_plain(self.command) if self.is_pytest and not self.environment else None

    @property
    def variables(self) -> dict[str, str]:
        """Where the Python is the suite's own, its plugins are meant to be loaded."""
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
    """Run a suite in a sandbox of its own; again, cold, where pytest did not come to its end in a warm run.

    Cold is by a fresh interpreter. Raises SandboxError, and what `prepare` raises.
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
    """Run a plain suite in a fork of a process that has imported pytest. Raises SandboxError."""
    command, secrets = suite.plain_command, Seal()
    if command is None:
        raise ValueError(f"{suite.command!r} needs a shell")
    arguments, variables = (*command.arguments, *suite.files), {**suite.variables, **command.variables}
    command = replace(command, arguments=arguments, variables=variables)
    result = await sandbox.run_pytest(command, plugin=PLUGIN, timeout_s=suite.timeout_s, stdin=secrets.stdin)
    return _report(suite, result, "" if result.truncated else result.output.decode(errors="replace"), secrets)


async def run_cold(sandbox: Sandbox, suite: Suite) -> SuiteReport:
    """Run the test command as it stands, by a shell. Raises SandboxError.

    For the parser `pytest` only sealed lines count; what other parsers read, the code under test can forge.
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
    """Only what was printed between the markers counts; without both, the log was cut or the run was, and nothing does."""
    _, opened, rest = output.partition(f"{begin}\n")
    log, closed, _ = rest.partition(f"\n{end}\n")
    return log if opened and closed else ""


def check_plugin(report: SuiteReport) -> SuiteReport:
    """Return the report, unless the grader's plugin could not write it. Raises PluginFailed."""
    if report.plugin_fault:
        raise PluginFailed(report.plugin_fault)
    return report


def find_test_files(tests: Collection[str]) -> tuple[str, ...]:
    """The files of pytest ids, sorted; other ids name none: `["tests/test_a.py::b", "test_x (m.T)"]` → `("tests/test_a.py",)`."""
    return tuple(sorted({test.split("::")[0] for test in tests if names_file(test)}))
