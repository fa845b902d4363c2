"""Counts and lengths of tasks that stream by: memory holds how often each value occurs."""

from collections import Counter
from collections.abc import Mapping

from turnsmith.git.patches import count_lines
from turnsmith.types import Task


class TaskCounts:
    """What `tasks stats` says, task by task."""

    def __init__(self) -> None:
        self.num_tasks = 0
        self.counts = {name: Counter[str]() for name in ("repo", "family", "kind")}
        self.lengths = {
            name: Counter[int]() for name in ("issue characters", "changed lines", "failing tests", "passing tests")
        }

    def add(self, task: Task) -> None:
        """Count one task."""
        self.num_tasks += 1
        family, kind = (str(task.meta.get(name, "unknown")) for name in ("family", "kind"))
        for counter, word in zip(self.counts.values(), (task.repo, family, kind), strict=True):
            counter[word] += 1
        lengths = (
            len(task.problem_statement),
            count_lines(task.patch),
            len(task.FAIL_TO_PASS),
            len(task.PASS_TO_PASS),
        )
        for counted, length in zip(self.lengths.values(), lengths, strict=True):
            counted[length] += 1

    def measure(self) -> dict[str, dict[str, float]]:
        """Smallest, median and largest of what has a length; at least one task must have been counted."""
        return {
            name: {"min": min(counted), "median": find_median(counted), "max": max(counted)}
            for name, counted in self.lengths.items()
        }


def find_median(counted: Mapping[int, int]) -> float:
    """The median of numbers by how often each occurs."""
    total = sum(counted.values())
    return (_find_place(counted, (total - 1) // 2) + _find_place(counted, total // 2)) / 2


def _find_place(counted: Mapping[int, int], place: int) -> int:
    """The number at a place among all of them, sorted, from 0."""
    for number in sorted(counted):
        place -= counted[number]
        if place < 0:
            return number
    raise ValueError("nothing is counted")
