"""A run while it goes on: bars with the time left in a terminal, plain lines anywhere else, a log in the run folder."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from turnsmith import tracking
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
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield Lines(console, log=log)
        return
    with make_bars(console) as bars:
        yield Bars(bars, log)


def make_bars(console: Console) -> Progress:
    """Label, bar, count, time so far, time left, remark."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left", style="dim"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=console,
        speed_estimate_period=SPEED_PERIOD_S,
        refresh_per_second=REFRESHES_PER_SECOND,
    )


class Bars:
    """One bar for each piece of work in progress, what is said above them."""

    def __init__(self, bars: Progress, log: Path | None = None) -> None:
        self._bars = bars
        self._log = log
        self._ids: dict[str, TaskID] = {}

    def begin(self, label: str, total: int) -> None:
        self._ids[label] = self._bars.add_task(to_line(label), total=total, note="")

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        self._bars.update(self._ids[label], advance=num)
        if note:
            self._bars.update(self._ids[label], note=to_line(note))

    def end(self, label: str) -> None:
        self._bars.remove_task(self._ids.pop(label))

    def say(self, text: str) -> None:
        self._bars.console.print(to_line(text))
        keep(text, self._log)


@dataclass
class Work:
    """A piece of work in progress."""

    total: int
    began: float
    told: float
    """When a line on it was last written."""
    done: int = 0
    note: str = ""
    num_before: int | None = None
    """Units that were done when the first were reported: not a matter of pace."""

    def add(self, num: int, note: str) -> None:
        self.done += num
        self.note = note or self.note
        self.num_before = self.done if self.num_before is None else self.num_before

    def left_s(self, now: float) -> float | None:
        """Seconds left at the pace so far; none where there is no pace yet."""
        num = self.done - (self.num_before or 0)
        return (now - self.began) / num * (self.total - self.done) if num > 0 else None


class Lines:
    """Plain lines for logs and pipes."""

    def __init__(self, console: Console, interval_s: float = LINE_INTERVAL_S, log: Path | None = None) -> None:
        self._console = console
        self._log = log
        self._interval_s = interval_s
        self._works: dict[str, Work] = {}

    def begin(self, label: str, total: int) -> None:
        now = time.monotonic()
        self._works[label] = Work(total, began=now, told=now)

    def advance(self, label: str, num: int = 1, note: str = "") -> None:
        now, work = time.monotonic(), self._works[label]
        work.add(num, note)
        if now - work.told >= self._interval_s:
            work.told = now
            left_s = work.left_s(now)
            self._tell(label, work, f"{to_duration(left_s)} left" if left_s is not None else "")

    def end(self, label: str) -> None:
        work = self._works.pop(label)
        self._tell(label, work, f"took {to_duration(time.monotonic() - work.began)}")

    def say(self, text: str) -> None:
        self._print(text)
        keep(text, self._log)

    def _tell(self, label: str, work: Work, remark: str) -> None:
        self._print(", ".join(filter(None, [f"{label}: {work.done} of {work.total}", work.note, remark])))

    def _print(self, text: str) -> None:
        self._console.print(to_line(text), soft_wrap=True)


def keep(text: str, log: Path | None) -> None:
    """Add a line to the log, where there is one, with the time."""
    if log:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now().isoformat(sep=' ', timespec='seconds')} {to_line(text)}\n")


def to_duration(seconds: float) -> str:
    """`75.2` → `0:01:15`."""
    return str(timedelta(seconds=round(seconds)))
