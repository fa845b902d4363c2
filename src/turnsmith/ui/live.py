"""A run while it goes on: bars with the time left in a terminal, plain lines anywhere else, a log in the run folder."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from turnsmith import tracking
from turnsmith.tracking.log_file import LogFile
from turnsmith.ui.interruption import announcing
from turnsmith.ui.terminal import make_console, to_line

LINE_INTERVAL_S = 10.0
"""Plain lines on one piece of work come no faster."""
EVIDENCE_SHARE, MIN_EVIDENCE = 0.1, 2
"""The time left is estimated once this share of the units is done: the first episodes that end are the short ones."""
REFRESHES_PER_SECOND = 2
"""Drawing takes time from the cores that learn."""


@contextmanager
def watching(log: Path | None = None) -> Iterator[tracking.Progress]:
    """Show progress on standard error until the block ends; what is said goes to `log` too."""
    bars = make_bars(make_console(stderr=True))
    progress = Bars(bars, log) if bars.console.is_terminal else Lines(bars, log)
    with bars if bars.console.is_terminal else nullcontext(), announcing(say=progress.say):
        yield progress


def make_bars(console: Console) -> Progress:
    """Show label, bar, count, time so far, time left, remark."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=console,
        refresh_per_second=REFRESHES_PER_SECOND,
    )


class TimeLeftColumn(ProgressColumn):
    """The time left, where there is an estimate; nothing elsewhere."""

    def render(self, task: Task) -> Text:
        return Text(describe_left(task), style="progress.remaining")


def describe_left(task: Task) -> str:
    """Describe the time left; empty without an estimate."""
    left = estimate_left(task)
    return f"{to_duration(left)} left" if left else ""


def estimate_left(task: Task) -> float | None:
    """Estimate the seconds left by the pace since this piece of work began. None without evidence, or once they are over."""
    begun, moved, num_before = (task.fields[name] for name in ("begun", "moved", "num_before"))
    num_done = task.completed - num_before
    if task.total is None or num_done < max(MIN_EVIDENCE, EVIDENCE_SHARE * (task.total - num_before)):
        return None
    left = (task.total - task.completed) * (moved - begun) / num_done - (task.get_time() - moved)
    return left if left > 0 else None


class Bars:
    """One bar for each piece of work in progress, what is said above them."""

    def __init__(self, bars: Progress, log: Path | None = None) -> None:
        self._bars = bars
        self._log = LogFile(log) if log else None
        self._ids: dict[str, TaskID] = {}

    def begin(self, label: str, total: int | None, num_done: int = 0) -> None:
        times: dict[str, Any] = dict.fromkeys(("begun", "moved", "told"), self._bars.get_time())
        self._ids[label] = self._bars.add_task(
            to_line(label), total=total, completed=num_done, num_before=num_done, note="", **times
        )

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        self._bars.update(self._ids[label], advance=num)
        if num:
            self._bars.update(self._ids[label], moved=self._bars.get_time())
        if note:
            self._bars.update(self._ids[label], note=to_line(note))

    def end(self, label: str) -> None:
        self._bars.remove_task(self._ids.pop(label))

    def say(self, text: str) -> None:
        self._bars.console.print(to_line(text), soft_wrap=True)
        if self._log:
            self._log.say(to_line(text))


class Lines(Bars):
    """Plain lines for logs and pipes in place of the bars, which are never drawn: they keep count and pace."""

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        super().advance(label, num, note)
        task, now = self._find(label), self._bars.get_time()
        if now - task.fields["told"] >= LINE_INTERVAL_S:
            self._bars.update(task.id, told=now)
            self._tell(task, describe_left(task))

    def end(self, label: str) -> None:
        task = self._find(label)
        self._tell(task, f"took {to_duration(task.elapsed or 0.0)}")
        super().end(label)

    def _find(self, label: str) -> Task:
        return next(task for task in self._bars.tasks if task.id == self._ids[label])

    def _tell(self, task: Task, remark: str) -> None:
        total = f" of {task.total:.0f}" if task.total else ""
        count = f"{task.description}: {task.completed:.0f}{total}"
        self._bars.console.print(", ".join(filter(None, [count, task.fields["note"], remark])), soft_wrap=True)


def to_duration(seconds: float) -> str:
    """`75.2` → `0:01:15`."""
    return str(timedelta(seconds=round(seconds)))
