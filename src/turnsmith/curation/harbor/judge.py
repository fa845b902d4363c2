"""Script that exits with code 0 if a task is resolved. Arguments: task file, status file, exit code of the tests."""

import json
import sys
from typing import Any, Dict, List  # noqa: UP035  (images may have Python 3.6)

COUNTED = {
    "strict": ({"passed"}, {"passed"}),
    "swe-bench": ({"passed", "xfailed"}, {"passed", "xfailed", "skipped"}),
}
"""Status rules → statuses that count as passed for tests of FAIL_TO_PASS, and those for tests of PASS_TO_PASS."""


def find_broken(task: Dict[str, Any], statuses: Dict[str, str]) -> List[str]:  # noqa: UP006
    """List the FAIL_TO_PASS and PASS_TO_PASS tests whose status does not count as passed."""
    fixed, maintained = COUNTED[task["status_rules"]]
    clean = task["meta"].get("clean_statuses", {})
    lists = ((task["FAIL_TO_PASS"], fixed), (task["PASS_TO_PASS"], maintained))
    return [
        test
        for tests, counted in lists
        for test in tests
        if not find(test, statuses) or not find(test, statuses) <= counted | {clean.get(test, "passed")}
    ]


def find(test: str, statuses: Dict[str, str]) -> "set[str]":  # noqa: UP006
    """Return the statuses of a test. An id that was cut at a space (`f[a` of `f[a b]`) stands for all ids that begin with it."""
    if test in statuses or "[" not in test or test.endswith("]"):
        return {statuses[test]} if test in statuses else set()
    return {status for name, status in statuses.items() if name.startswith(test)}


def main() -> None:
    """Grade the test run; exit with a message if the task is not resolved."""
    with open(sys.argv[1]) as file:  # noqa: PTH123
        task = json.load(file)
    try:
        with open(sys.argv[2]) as file:  # noqa: PTH123
            statuses = json.load(file)
    except (OSError, ValueError):
        sys.exit("the test run did not finish: it wrote no statuses")
    broken = find_broken(task, statuses)
    failed = any(status in ("failed", "error") for status in statuses.values())
    if broken or failed != (sys.argv[3] != "0"):
        sys.exit("not resolved: " + ", ".join(broken[:3] or ["the exit code does not agree with the tests"]))


if __name__ == "__main__":
    main()
