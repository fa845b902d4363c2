"""SWE-Gym: SWE-bench's columns without the set-up commit, and its own images."""

from turnsmith.tasks.sets.base import Columns, PublicSet, Row
from turnsmith.tasks.sets.cells import read_text
from turnsmith.tasks.sets.images import name_of_swe_gym
from turnsmith.tasks.sets.swe_bench import describe_suite


def describe(row: Row) -> Columns:
    """Map a row to task columns by SWE-bench's rules, with SWE-Gym's image. Raises Refused."""
    return describe_suite(row) | {"image": name_of_swe_gym(read_text(row, "instance_id"))}


SWE_GYM = PublicSet(
    "swe-gym", frozenset({"instance_id", "repo", "base_commit", "patch", "test_patch", "version"}), describe
)
