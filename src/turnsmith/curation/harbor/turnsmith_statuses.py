"""Plugin of pytest 3.10 or later: writes the worst status of each test to the file that the variable TURNSMITH_STATUSES names."""

import json
import os
from typing import Any, Dict  # noqa: UP035  (suites may run on Python 3.6)

ORDER = ["passed", "xfailed", "xpassed", "skipped", "failed", "error"]
STATUSES: Dict[str, str] = {}  # noqa: UP006


def pytest_collectreport(report: Any) -> None:
    """Record the status `error` for a test file that pytest cannot collect."""
    if report.failed:
        STATUSES[report.nodeid] = "error"


def pytest_runtest_logreport(report: Any) -> None:
    """Record the worst status of a test's call, setup and teardown."""
    if report.when == "call" or not report.passed:
        before = STATUSES.get(report.nodeid, "passed")
        STATUSES[report.nodeid] = max(before, read_status(report), key=ORDER.index)


def read_status(report: Any) -> str:
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "xpassed" if hasattr(report, "wasxfail") else "passed"


def pytest_unconfigure() -> None:
    """Write all statuses at the end of pytest."""
    with open(os.environ["TURNSMITH_STATUSES"], "w") as file:  # noqa: PTH123
        json.dump(STATUSES, file)
