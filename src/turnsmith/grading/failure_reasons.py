"""Failure reasons that SWE-bench's harness reads from logs of unresolved patches; they change no count."""

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """Failure reason with the regular expression that finds it in a log."""

    name: str
    is_environment: bool
    """True if no patch of source code can cause it."""
    pattern: str


REASONS = (
    Reason("browser_launch_failed", True, r"Failed to launch|Failed to connect to the bus"),
    Reason("display_unavailable", True, r"cannot open display|Missing X server|unable to open X display"),
    Reason("out_of_memory", True, r"Cannot allocate memory|OutOfMemoryError|^Killed$"),
    Reason("container_unavailable", True, r"Error response from daemon|Cannot connect to the Docker daemon"),
    Reason("network_unreachable", True, r"Could not resolve host|Temporary failure in name resolution"),
    Reason("missing_module", False, r"Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    Reason("no_tests_collected", False, r"no tests ran|collected 0 items"),
    Reason("tests_timed_out", False, r"Timeout error: \d+ seconds exceeded"),
)
"""Names, order and patterns of the package swebench 5.0.2; the first match counts."""


def find_reason(log: str) -> Reason | None:
    """Find the first reason whose pattern the log matches."""
    return next((reason for reason in REASONS if re.search(reason.pattern, log, re.MULTILINE)), None)
