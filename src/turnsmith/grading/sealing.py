"""Loaded by pytest inside the sandbox: writes one sealed line for each test, and reports each test to a descriptor.

pytest loads it before the code under test, and captures no input yet: the secrets come by standard input. Nothing of ours is
imported here. The suite's own Python and pytest run it, which may be as old as 3.6 and 3.10. PYTEST_DONT_REWRITE: it asserts
nothing, and rewriting takes time.
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
"""What pytest counts, in the order and in the words of its `-rA`, which older ones lack for skips of single tests."""
MAX_LINE = 500
"""Characters of a line, where its message is cut."""


def open_report(key: bytes, descriptor: int) -> "Callable[..., None]":
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


def leave_no_trace(folder: str) -> None:
    """The folder that pytest found us in goes from the paths again: tests look at them, and nobody shall put modules there."""
    sys.path[:] = [place for place in sys.path if place != folder]
    rest = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    if not rest:
        del os.environ["PYTHONPATH"]


if "__file__" in globals():  # else nobody had to find us
    leave_no_trace(os.path.dirname(__file__))  # noqa: PTH120


@contextmanager
def reporting() -> "Iterator[None]":
    """Report an exception of a hook of ours, and let it pass."""
    try:
        yield
    except Exception as error:
        tell(crash=f"{type(error).__name__}: {error}")
        raise


class Reporter:
    """Says how each test ended, to the descriptor at once and to the log at the end, by ids as the working directory has them."""

    def __init__(self, config: Any) -> None:
        self.root = str(getattr(config, "rootpath", None) or config.rootdir)
        self.here = str(Path.cwd())

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: Any) -> None:
        with reporting():
            if report.failed:
                tell(test=self.name(report), when="collect", outcome="failed", xfail=False)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Each phase that says something: the call, and whatever did not pass."""
        with reporting():
            if counts(report) and (report.when == "call" or not report.passed):
                xfail = hasattr(report, "wasxfail")
                tell(test=self.name(report), when=report.when, outcome=report.outcome, xfail=xfail)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What the command asks pytest to print of it does not matter."""
        with reporting():
            terminalreporter.write_line(f"{MARK} = short test summary info =")
            for kind, word in WORDS.items():
                for report in filter(counts, terminalreporter.stats.get(kind, [])):
                    line = add_message(f"{word} {self.name(report)}", find_message(report))
                    terminalreporter.write_line(f"{MARK} {line}")

    def name(self, report: Any) -> str:
        """Pytest's own way to say this has changed over the years."""
        path, colons, rest = report.nodeid.partition("::")
        if path and self.here != self.root:
            path = os.path.relpath(Path(self.root, path), self.here)
        return f"{path}{colons}{rest.replace('()::', '')}"  # which pytest before 4.0 put behind the name of a class


def counts(report: Any) -> bool:
    """Of a part of a test only a failure does: it is the test's own."""
    return report.failed or not hasattr(report, "context")


def find_message(report: Any) -> str:
    """Return the first line of the reason why it did not pass; of a file that cannot be imported, the exception."""
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
    """`line - message`, cut."""
    if not message or len(line) + len(" - ...") > MAX_LINE:
        return line
    whole = f"{line} - {message}"
    return whole if len(whole) <= MAX_LINE else f"{whole[: MAX_LINE - 3]}..."


def pytest_configure(config: Any) -> None:
    with reporting():
        config.option.maxfail = 0  # one of the sentinels must fail, and the run goes on
        config.option.no_summary = False
        config.pluginmanager.register(Reporter(config))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The bare word, and the last line of the report: pytest came to its end."""
    print(MARK, flush=True)
    tell(end=True)


tell(loaded=True)
