"""Live progress: bars with the time left in a terminal, plain lines in pipes, and a log in the run folder."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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
"""Minimum interval in seconds between plain lines about the same piece of work."""
EVIDENCE_SHARE, MIN_EVIDENCE = 0.1, 2
"""Share and number of units that must be finished before the time left is estimated."""
REFRESHES_PER_SECOND = 2
"""Refresh rate of the progress bars. It is low, since drawing takes CPU time from training."""


@contextmanager
def watching(log: Path | None = None) -> Iterator[tracking.Progress]:
    """Show progress on standard error until the block ends. Messages also go to the file `log`."""
    bars = make_bars(make_console(stderr=True))
    progress = Bars(bars, log) if bars.console.is_terminal else Lines(bars, log)
    with bars if bars.console.is_terminal else nullcontext(), announcing(say=progress.log):
        yield progress


def make_bars(console: Console) -> Progress:
    """Make progress bars with label, bar, count, elapsed time, time left and note."""
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
    """Column of the progress bars that shows the time left; empty without an estimate."""

    def render(self, task: Task) -> Text:
        return Text(describe_left(task), style="progress.remaining")


def describe_left(task: Task) -> str:
    """Describe the time left for a piece of work; empty if it cannot be estimated yet."""
    left = estimate_left(task)
    return f"{to_duration(left)} left" if left else ""


def estimate_left(task: Task) -> float | None:
    """Estimate the seconds left by the pace so far. None if too little is done, or the work takes longer than estimated."""
    begun, moved, num_before = (task.fields[name] for name in ("begun", "moved", "num_before"))
    num_done = task.completed - num_before
    if task.total is None or num_done < max(MIN_EVIDENCE, EVIDENCE_SHARE * (task.total - num_before)):
        return None
    left = (task.total - task.completed) * (moved - begun) / num_done - (task.get_time() - moved)
    return left if left > 0 else None


@dataclass(frozen=True)
class Bar:
    bars: Progress
    id: TaskID

    def advance(self, num: int = 1, note: str = "") -> None:
        self.bars.update(self.id, advance=num)
        if num:
            self.bars.update(self.id, moved=self.bars.get_time())
        if note:
            self.bars.update(self.id, note=to_line(note))


class PrintedBar(Bar):
    """Progress of one piece of work, printed as plain lines at intervals. The inherited bar only counts; it is not drawn."""

    def advance(self, num: int = 1, note: str = "") -> None:
        super().advance(num, note)
        task, now = self._find(), self.bars.get_time()
        if now - task.fields["printed"] >= LINE_INTERVAL_S:
            self.bars.update(self.id, printed=now)
            self._print(task, describe_left(task))

    def end(self) -> None:
        """Print the final count and the elapsed time."""
        task = self._find()
        self._print(task, f"took {to_duration(task.elapsed or 0.0)}")

    def _find(self) -> Task:
        return next(task for task in self.bars.tasks if task.id == self.id)

    def _print(self, task: Task, remark: str) -> None:
        total = f" of {task.total:.0f}" if task.total else ""
        count = f"{task.description}: {task.completed:.0f}{total}"
        self.bars.console.print(", ".join(filter(None, [count, task.fields["note"], remark])), soft_wrap=True)


class MessagePrinter:
    """Progress display that prints messages on a console and appends them to a log file."""

    def __init__(self, console: Console, file: Path | None = None) -> None:
        self.console, self._file = console, file

    def log(self, text: str) -> None:
        self.console.print(to_line(text), soft_wrap=True)
        if self._file:
            LogFile(self._file).log(to_line(text))


class Bars(MessagePrinter):
    """Progress display with a bar for each piece of work, below the printed messages."""

    def __init__(self, bars: Progress, file: Path | None = None) -> None:
        super().__init__(bars.console, file)
        self._bars = bars

    @contextmanager
    def work(self, label: str, total: int | None, num_done: int = 0) -> Iterator[Bar]:
        times: dict[str, Any] = dict.fromkeys(("begun", "moved", "printed"), self._bars.get_time())
        task = self._bars.add_task(
            to_line(label), total=total, completed=num_done, num_before=num_done, note="", **times
        )
        try:
            yield Bar(self._bars, task)
        finally:
            self._bars.remove_task(task)


class Lines(Bars):
    """Progress display that prints plain lines, for logs and pipes."""

    @contextmanager
    def work(self, label: str, total: int | None, num_done: int = 0) -> Iterator[Bar]:
        with super().work(label, total, num_done) as bar:
            line = PrintedBar(bar.bars, bar.id)
            yield line
            line.end()


def to_duration(seconds: float) -> str:
    """Format seconds: `75.2` → `0:01:15`."""
    return str(timedelta(seconds=round(seconds)))
