"""Loaded by pytest inside the sandbox: begins each line of the short summary with a word read from standard input.

pytest loads it before the code under test, and captures no input yet. Nothing of ours is imported here.
PYTEST_DONT_REWRITE: it asserts nothing, and rewriting takes time.
"""

import os
import sys
from typing import Any

import pytest

MARK = sys.stdin.readline().strip()
os.environ.pop("PYTEST_PLUGINS", None)  # a pytest that a test starts is none of our business


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
    """The bare word: pytest came to its end."""
    print(MARK, flush=True)
