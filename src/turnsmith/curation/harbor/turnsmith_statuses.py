"""Loaded by pytest, from 3.10 on: writes how each test ended, the worst of its phases, to the file TURNSMITH_STATUSES."""

import json
import os
from typing import Any, Dict  # noqa: UP035  (suites may run on Python 3.6)

ORDER = ["passed", "xfailed", "xpassed", "skipped", "failed", "error"]
STATUSES: Dict[str, str] = {}  # noqa: UP006


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be read is an error."""
    if report.failed:
        STATUSES[report.nodeid] = "error"


def pytest_runtest_logreport(report: Any) -> None:
    """Each phase that says something: the call, and whatever did not pass."""
    if report.when == "call" or not report.passed:
        before = STATUSES.get(report.nodeid, "passed")
        STATUSES[report.nodeid] = max(before, read_status(report), key=ORDER.index)


def read_status(report: Any) -> str:
    """The word for one phase."""
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "xpassed" if hasattr(report, "wasxfail") else "passed"


def pytest_unconfigure() -> None:
    """Pytest came to its end."""
    with open(os.environ["TURNSMITH_STATUSES"], "w") as file:  # noqa: PTH123
        json.dump(STATUSES, file)
