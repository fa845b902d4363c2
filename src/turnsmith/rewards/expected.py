"""The tests that a data set expects, found among those that a run reported: SWE-bench's rules, as pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass

from turnsmith.rewards.results import SEVERITY

MISSING = "missing"


@dataclass(frozen=True)
class Rules:
    """Statuses that count. A test that is nowhere never does."""

    fixed: frozenset[str] = frozenset({"passed"})
    """For FAIL_TO_PASS."""
    maintained: frozenset[str] = frozenset({"passed"})
    """For PASS_TO_PASS."""


STRICT = Rules()
"""Only a pass is one: the code under test can ask to be skipped, or to be expected to fail."""
SWE_BENCH = Rules(fixed=frozenset({"passed", "xfailed"}), maintained=frozenset({"passed", "xfailed", "skipped"}))
"""For rows whose data set counted so when it wrote down what passes."""


def find_status(test: str, statuses: Mapping[str, str]) -> str:
    """The status of an expected test; of an id that the data set has cut, the worst of all that it may have been."""
    if test in statuses or not is_cut(test):
        return statuses.get(test, MISSING)
    found = [status for name, status in statuses.items() if name.startswith(test)]
    return max(found, key=SEVERITY.index, default=MISSING)


def is_cut(test: str) -> bool:
    """`a.py::t[x` was `a.py::t[x y]`: its data set took the id to end at the first space."""
    return "[" in test and not test.endswith("]")
