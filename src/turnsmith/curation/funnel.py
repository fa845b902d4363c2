"""Sequence of filters, with each filter's counts of rows: seen, dropped, and unknown for lack of data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnsmith.curation.filters import Filter, FilterDecision
from turnsmith.curation.rows import TaskRow


@dataclass
class FilterCounts:
    """Filter in a funnel, with the numbers of rows that it has seen, dropped, and not decided for lack of data."""

    filter: Filter
    num_seen: int = 0
    num_dropped: int = 0
    num_unknown: int = 0

    @property
    def num_left(self) -> int:
        return self.num_seen - self.num_dropped


@dataclass(frozen=True)
class Dropped:
    """Record of a dropped row: its id, the filter and the reason."""

    instance_id: str
    filter: str
    reason: str


@dataclass
class Funnel:
    """Sequence of filters with counts; a row that one filter drops does not reach the next."""

    filters: Sequence[Filter]
    drop_unknown: bool = False
    """True if a row is dropped when a filter lacks data about it."""
    stages: list[FilterCounts] = field(init=False)
    num_rows: int = 0

    def __post_init__(self) -> None:
        self.stages = [FilterCounts(each) for each in self.filters]

    @property
    def num_left(self) -> int:
        return self.stages[-1].num_left if self.stages else self.num_rows

    def sift(self, rows: Iterable[TaskRow]) -> Iterator[tuple[TaskRow, list[Dropped]]]:
        """Yield each row with a list: empty if all filters keep the row, else the record of the filter that dropped it."""
        for row in rows:
            dropped = self.judge(row)
            yield row, [dropped] if dropped else []

    def judge(self, row: TaskRow) -> Dropped | None:
        """Pass one row through the filters. Return a record of the filter that dropped the row; None if all keep it."""
        self.num_rows += 1
        for stage in self.stages:
            stage.num_seen += 1
            decision, reason = stage.filter.look(row)
            stage.num_unknown += decision is FilterDecision.UNKNOWN
            if decision is FilterDecision.DROPPED or (self.drop_unknown and decision is FilterDecision.UNKNOWN):
                stage.num_dropped += 1
                return Dropped(row.instance_id, stage.filter.name, reason)
        return None

    def to_json(self) -> dict[str, Any]:
        stages = [
            {
                "filter": str(stage.filter),
                "drops": stage.filter.describe(),
                "why": stage.filter.why,
                "seen": stage.num_seen,
                "dropped": stage.num_dropped,
                "unknown": stage.num_unknown,
                "left": stage.num_left,
            }
            for stage in self.stages
        ]
        return {"num_rows": self.num_rows, "num_left": self.num_left, "stages": stages}
