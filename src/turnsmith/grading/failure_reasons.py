"""The reasons that SWE-bench's harness reads from the logs of what is not resolved. They are advice, and change no count."""

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """A sign in a log, and the name of the fault behind it."""

    name: str
    is_environment: bool
    """True where no patch of source code can be the cause; False where the patch may be."""
    sign: re.Pattern[str]


def _read(name: str, is_environment: bool, sign: str) -> Reason:
    return Reason(name, is_environment, re.compile(sign, re.MULTILINE))


REASONS = (
    _read("browser_launch_failed", True, r"Failed to launch|Failed to connect to the bus"),
    _read("display_unavailable", True, r"cannot open display|Missing X server|unable to open X display"),
    _read("out_of_memory", True, r"Cannot allocate memory|OutOfMemoryError|^Killed$"),
    _read("container_unavailable", True, r"Error response from daemon|Cannot connect to the Docker daemon"),
    _read("network_unreachable", True, r"Could not resolve host|Temporary failure in name resolution"),
    _read("missing_module", False, r"Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    _read("no_tests_collected", False, r"no tests ran|collected 0 items"),
    _read("tests_timed_out", False, r"Timeout error: \d+ seconds exceeded"),
)
"""Names, order and signs are those of the package swebench 5.0.2; the first sign that a log shows counts."""


def find_reason(log: str) -> Reason | None:
    """Find the first reason whose sign the log shows."""
    return next((reason for reason in REASONS if reason.sign.search(log)), None)
