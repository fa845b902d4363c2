"""The tests that a data set expects, found among those that a run reported: SWE-bench's rules, as pure functions."""

from collections.abc import Mapping

from turnsmith.rewards.results import SEVERITY

MISSING = "missing"


RULES = {
    "strict": ({"passed"}, {"passed"}),
    "swe-bench": ({"passed", "xfailed"}, {"passed", "xfailed", "skipped"}),
}
"""Statuses that count for FAIL_TO_PASS and for PASS_TO_PASS; a test that is nowhere never does.

The code under test can ask to be skipped, or to be expected to fail, so this counts only where the data set counted so, too.
"""


def find_status(test: str, statuses: Mapping[str, str]) -> str:
    """The status of an expected test; of an id that the data set has cut, the worst of all that it may have been."""
    if test in statuses or not is_cut(test):
        return statuses.get(test, MISSING)
    found = [status for name, status in statuses.items() if name.startswith(test)]
    return max(found, key=SEVERITY.index, default=MISSING)


def is_cut(test: str) -> bool:
    """`a.py::t[x` was `a.py::t[x y]`: its data set took the id to end at the first space."""
    return "[" in test and not test.endswith("]")
