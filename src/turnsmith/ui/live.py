"""A run while it goes on: bars with the time left in a terminal, plain lines anywhere else, a log in the run folder."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path

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
from turnsmith.ui.interruption import announcing
from turnsmith.ui.terminal import make_console, to_line

LINE_INTERVAL_S = 10.0
"""Plain lines on one piece of work come no faster."""
SPEED_PERIOD_S = 600.0
"""The time left is guessed from the pace of this long: episodes end in bursts."""
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
        speed_estimate_period=SPEED_PERIOD_S,
        refresh_per_second=REFRESHES_PER_SECOND,
    )


class TimeLeftColumn(ProgressColumn):
    """The time left, where there is an estimate; nothing elsewhere."""

    def render(self, task: Task) -> Text:
        if task.finished or task.time_remaining is None:
            return Text()
        return Text(f"{to_duration(task.time_remaining)} left", style="progress.remaining")


class Bars:
    """One bar for each piece of work in progress, what is said above them."""

    def __init__(self, bars: Progress, log: Path | None = None) -> None:
        self._bars = bars
        self._log = log
        self._ids: dict[str, TaskID] = {}

    def begin(self, label: str, total: int | None) -> None:
        self._ids[label] = self._bars.add_task(to_line(label), total=total, note="", told=self._bars.get_time())

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        self._bars.update(self._ids[label], advance=num)
        if note:
            self._bars.update(self._ids[label], note=to_line(note))

    def end(self, label: str) -> None:
        self._bars.remove_task(self._ids.pop(label))

    def say(self, text: str) -> None:
        self._bars.console.print(to_line(text), soft_wrap=True)
        if self._log:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now().isoformat(sep=' ', timespec='seconds')} {to_line(text)}\n")


class Lines(Bars):
    """Plain lines for logs and pipes in place of the bars, which are never drawn: they keep count and pace."""

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        super().advance(label, num, note)
        task, now = self._find(label), self._bars.get_time()
        if now - task.fields["told"] >= LINE_INTERVAL_S:
            self._bars.update(task.id, told=now)
            self._tell(task, f"{to_duration(task.time_remaining)} left" if task.time_remaining is not None else "")

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
