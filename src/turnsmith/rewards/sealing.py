"""Loaded by pytest inside the sandbox: seals each line of the short summary, and reports each test to a descriptor.

pytest loads it before the code under test, and captures no input yet: the secrets come by standard input. Nothing of ours is
imported here. PYTEST_DONT_REWRITE: it asserts nothing, and rewriting takes time.
"""

import fcntl
import json
import os
import random
import resource
import sys
from _blake2 import blake2b
from collections.abc import Callable
from typing import Any

import pytest


def open_report(key: bytes, descriptor: int) -> Callable[..., None]:
    """A function that writes one signed, numbered line; the descriptor moves to a number that nobody was told."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 3000)
    hidden = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(limit // 2, limit))
    os.close(descriptor)
    owner, num_lines = os.getpid(), 0

    def tell(**record: Any) -> None:
        nonlocal num_lines
        if os.getpid() != owner:
            return  # a child that a test has forked
        line = json.dumps([num_lines, record])
        num_lines += 1
        tag = blake2b(line.encode(), key=key, digest_size=16).hexdigest()
        rest = f"{tag} {line}\n".encode()
        while rest:
            rest = rest[os.write(hidden, rest) :]

    return tell


SECRETS = json.loads(sys.stdin.readline())
MARK = SECRETS.pop("mark")
tell = open_report(bytes.fromhex(SECRETS.pop("key")), SECRETS.pop("descriptor"))
os.environ.pop("PYTEST_PLUGINS", None)  # a pytest that a test starts is none of our business


class Reporter:
    """Reports by the ids that the log has, too."""

    def __init__(self, config: Any) -> None:
        self.name = config.cwd_relative_nodeid

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            tell(test=self.name(report.nodeid), when="collect", outcome="failed", xfail=False)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Each phase that says something: the call, and whatever did not pass."""
        if report.when == "call" or not report.passed:
            xfail = hasattr(report, "wasxfail")
            tell(test=self.name(report.nodeid), when=report.when, outcome=report.outcome, xfail=xfail)


def pytest_configure(config: Any) -> None:
    config.option.maxfail = 0  # one of the sentinels must fail, and the run goes on
    config.pluginmanager.register(Reporter(config))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What pytest writes from here on, line by line, is the short summary."""
    write_line = terminalreporter.write_line

    def write_sealed(line: str, **markup: bool) -> None:
        write_line(f"{MARK} {line}", **markup)

    terminalreporter.write_line = write_sealed
    write_sealed("= short test summary info =")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The bare word, and the last line of the report: pytest came to its end."""
    print(MARK, flush=True)
    tell(end=True)
