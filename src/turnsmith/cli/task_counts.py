"""Counts and lengths of streamed tasks, held as frequencies of values."""

from collections import Counter
from collections.abc import Mapping

from turnsmith.git.patches import count_lines
from turnsmith.types import Task


class TaskCounts:
    """Accumulator of the counts that `tasks stats` prints."""

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
        for counter, value in zip(self.counts.values(), (task.repo, family, kind), strict=True):
            counter[value] += 1
        lengths = (
            len(task.problem_statement),
            count_lines(task.patch),
            len(task.FAIL_TO_PASS),
            len(task.PASS_TO_PASS),
        )
        for counted, length in zip(self.lengths.values(), lengths, strict=True):
            counted[length] += 1

    def measure(self) -> dict[str, dict[str, float]]:
        """Return minimum, median and maximum of each length. Needs at least one task."""
        return {
            name: {"min": min(counted), "median": find_median(counted), "max": max(counted)}
            for name, counted in self.lengths.items()
        }


def find_median(counted: Mapping[int, int]) -> float:
    """Return the median of numbers, given the frequency of each."""
    total = sum(counted.values())
    return (_find_place(counted, (total - 1) // 2) + _find_place(counted, total // 2)) / 2


def _find_place(counted: Mapping[int, int], place: int) -> int:
    """Return the number at a position of the sorted sequence, counted from 0."""
    for number in sorted(counted):
        place -= counted[number]
        if place < 0:
            return number
    raise ValueError("no number was counted")
