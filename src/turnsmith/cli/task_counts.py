"""Counts and lengths of streamed tasks, held as frequencies of values."""

from collections import Counter
from statistics import median

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
            name: {"min": min(counted), "median": float(median(counted.elements())), "max": max(counted)}
            for name, counted in self.lengths.items()
        }
