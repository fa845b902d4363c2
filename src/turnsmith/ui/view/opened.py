"""Runs that `turnsmith view` shows, with summaries of their trajectories."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import JournalEntry, read_entry
from turnsmith.runs.summaries import JournalIndex, TrajectorySummary
from turnsmith.types import Task
from turnsmith.ui.reading import read_all_tasks

T = TypeVar("T")


class Kept(Generic[T]):
    """Value that is computed again only if its key has changed, also if several threads ask for it at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[object, T] | None = None

    def get(self, key: object, compute: Callable[[], T]) -> T:
        """Return the value for a key."""
        with self._lock:
            if self._last is None or self._last[0] != key:
                self._last = key, compute()
            return self._last[1]


@dataclass
class OpenedRun:
    """Run folder and summaries of its journals, which each call brings up to date."""

    folder: RunFolder
    indexes: dict[str, JournalIndex] = field(default_factory=dict)
    """Name of a journal, e.g. `evals/base/practice`, to its summaries."""
    lock: Lock = field(default_factory=Lock)
    """Lock of the indexes, because a server answers requests in several threads."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """Task id → task, read when a page first shows one."""

    steps: Kept[list[dict[str, Any]]] = field(default_factory=Kept)
    """Comparisons of evaluations, which take time."""

    curves: Kept[bytes] = field(default_factory=Kept)
    """Picture of the curves, which takes a second."""

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self.folder.path.resolve().name

    def refresh(self) -> dict[str, JournalIndex]:
        """Read what was appended to the journals since the last call."""
        with self.lock:
            for journal in self.folder.journals():
                name = str(journal.parent.relative_to(self.folder.path))
                self.indexes.setdefault(name, JournalIndex(journal)).refresh()
            return dict(self.indexes)

    def list_summaries(self) -> Iterator[tuple[str, TrajectorySummary]]:
        """Yield journal and summary of the last record of each trajectory."""
        for name, index in self.refresh().items():
            yield from ((name, summary) for summary in index.list_latest())

    def list_faults(self) -> list[str]:
        """List one sentence about each damaged line of the journals read so far."""
        return [fault for index in self.indexes.values() for fault in index.faults]

    def find_task(self, instance_id: str) -> Task | None:
        """Find the task of a trajectory; None if its task set cannot be read."""
        if not self.tasks:
            with suppress(UsageError):  # the rest of the trajectory is shown
                self.tasks = {task.instance_id: task for task in read_all_tasks(self.folder)}
        return self.tasks.get(instance_id)

    def read(self, journal: str, start: int) -> JournalEntry:
        """Read the trajectory at byte `start` of a journal. Raises UsageError if there is none, or if it is damaged."""
        index = self.refresh().get(journal)
        summaries = index.summaries if index else []
        found = next((summary for summary in summaries if summary.start == start), None)
        if not index or not found:
            raise UsageError(
                f"{self.folder.path} has no trajectory at byte {start} of {journal}: choose one of the table"
            )
        return read_entry(index.journal, found.start, found.size)


def find_runs(path: Path) -> dict[str, OpenedRun]:
    """Find the run at `path`, or the runs in the folder `path`, by name. Raises UsageError if there is none."""
    folders = [path] if (path / "config.json").is_file() else sorted(file.parent for file in path.glob("*/config.json"))
    if not folders:
        raise UsageError(f"{path} is neither a run nor a folder of runs: give a folder that `turnsmith run` has made")
    opened = [OpenedRun(RunFolder(folder)) for folder in folders]
    return {run.name: run for run in opened}
