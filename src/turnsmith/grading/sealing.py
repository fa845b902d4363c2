"""Pytest plugin of the grader. It writes a line with a secret mark per test to the log, and a signed report to a descriptor.

pytest loads it before the code under test, and the secrets come on stdin. It imports no module of Turnsmith, and runs on
Python 3.6 and pytest 3.10 or later. The word PYTEST_DONT_REWRITE tells pytest not to rewrite this module.
"""

import fcntl
import json
import os
import random
import resource
import sys
from _blake2 import blake2b
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WORDS = {
    "passed": "PASSED",
    "skipped": "SKIPPED",
    "xfailed": "XFAIL",
    "xpassed": "XPASS",
    "error": "ERROR",
    "failed": "FAILED",
}
"""Status → its word in the summary of `pytest -rA`, in pytest's order."""
MAX_LINE = 500
"""Maximum number of characters of a summary line in the log; the message at its end is cut."""


def open_report(key: bytes, descriptor: int) -> "Callable[..., None]":
    """Return a function that writes signed lines to `descriptor`, after moving it to a random number to hide it from tests."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 3000)
    hidden = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(limit // 2, limit))
    os.close(descriptor)
    owner, num_lines = os.getpid(), 0

    def report_line(**record: Any) -> None:
        nonlocal num_lines
        if os.getpid() != owner:
            return  # a child that a test has forked
        line = json.dumps([num_lines, record])
        num_lines += 1
        tag = blake2b(line.encode(), key=key, digest_size=16).hexdigest()
        rest = f"{tag} {line}\n".encode()
        while rest:
            rest = rest[os.write(hidden, rest) :]

    return report_line


SECRETS = json.loads(sys.stdin.readline())
MARK = SECRETS.pop("mark")
report_line = open_report(bytes.fromhex(SECRETS.pop("key")), SECRETS.pop("descriptor"))
os.environ.pop("PYTEST_PLUGINS", None)  # do not load the plugin in a pytest that a test starts


def remove_import_path(folder: str) -> None:
    """Remove the plugin's folder from the import paths, so that tests cannot see it or import from it."""
    sys.path[:] = [place for place in sys.path if place != folder]
    rest = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    if not rest:
        del os.environ["PYTHONPATH"]


if "__file__" in globals():  # else the plugin was not imported from a folder
    remove_import_path(os.path.dirname(__file__))  # noqa: PTH120


@contextmanager
def reporting() -> "Iterator[None]":
    """Catch an exception of one of the plugin's hooks, write it to the signed report, and raise it again."""
    try:
        yield
    except Exception as error:
        report_line(crash=f"{type(error).__name__}: {error}")
        raise


class Reporter:
    """Reporter of test results. It writes to the signed report at once, and to the log at the end.

    Ids of tests are relative to the working directory.
    """

    def __init__(self, config: Any) -> None:
        self.root = str(getattr(config, "rootpath", None) or config.rootdir)
        self.here = str(Path.cwd())

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: Any) -> None:
        with reporting():
            if report.failed:
                report_line(test=self.name(report), when="collect", outcome="failed", xfail=False)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Report a test's call phase, and every other phase that did not pass."""
        with reporting():
            if counts(report) and (report.when == "call" or not report.passed):
                xfail = hasattr(report, "wasxfail")
                report_line(test=self.name(report), when=report.when, outcome=report.outcome, xfail=xfail)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write a summary to the log, each line after the secret mark, whatever options pytest was given."""
        with reporting():
            terminalreporter.write_line(f"{MARK} = short test summary info =")
            for kind, word in WORDS.items():
                for report in filter(counts, terminalreporter.stats.get(kind, [])):
                    line = add_message(f"{word} {self.name(report)}", find_message(report))
                    terminalreporter.write_line(f"{MARK} {line}")

    def name(self, report: Any) -> str:
        """Return the id of a test relative to the working directory, with any version of pytest."""
        path, colons, rest = report.nodeid.partition("::")
        if path and self.here != self.root:
            path = os.path.relpath(Path(self.root, path), self.here)
        return f"{path}{colons}{rest.replace('()::', '')}"  # which pytest before 4.0 put behind the name of a class


def counts(report: Any) -> bool:
    """Return True for a report of a test, or of a failed subtest."""
    return report.failed or not hasattr(report, "context")


def find_message(report: Any) -> str:
    """Return the first line of the reason of a failure; for a file that cannot be imported, the exception."""
    why = report.longrepr
    if hasattr(report, "wasxfail"):
        why = report.wasxfail
    elif isinstance(why, tuple):
        why = why[-1]
    elif not isinstance(why, str):
        crash = getattr(getattr(why, "reprcrash", None), "message", "")
        lines = str(getattr(why, "longrepr", "")).splitlines()
        why = crash or next((line[1:].strip() for line in reversed(lines) if line.startswith("E ")), "")
    return str(why).partition("\n")[0]


def add_message(line: str, message: str) -> str:
    """Append a message to a summary line: `line - message`, cut to the maximum length."""
    if not message or len(line) + len(" - ...") > MAX_LINE:
        return line
    whole = f"{line} - {message}"
    return whole if len(whole) <= MAX_LINE else f"{whole[: MAX_LINE - 3]}..."


def pytest_configure(config: Any) -> None:
    with reporting():
        config.option.maxfail = 0  # a sentinel must fail without ending the run
        config.option.no_summary = False
        config.pluginmanager.register(Reporter(config))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Print the secret mark as last line of the log, and the end line of the signed report. Both prove that pytest finished."""
    print(MARK, flush=True)
    report_line(end=True)


report_line(loaded=True)
