"""Live progress: bars with the time left in a terminal, plain lines in pipes, and a log in the run folder."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
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
from rich.table import Column
from rich.text import Text

from turnsmith import tracking
from turnsmith.tracking import Standing
from turnsmith.tracking.log_file import LogFile
from turnsmith.tracking.standings import describe_pace, describe_rate, to_duration
from turnsmith.ui.interruption import announcing
from turnsmith.ui.terminal import make_console, to_line

LINE_INTERVAL_S = 10.0
"""Minimum interval in seconds between plain lines about the same piece of work."""
EVIDENCE_SHARE, MIN_EVIDENCE = 0.1, 2
"""Share and number of units that must be finished before the time left is estimated."""
MIN_WIDTH = 80
"""Width in columns below which the display is compact."""
REFRESHES_PER_SECOND = 2
"""Refresh rate of the progress bars. It is low, since drawing takes CPU time from training."""


@contextmanager
def watching(log: Path | None = None) -> Iterator[tracking.Progress]:
    """Show progress on standard error until the block ends. Messages also go to the file `log`."""
    bars = RunBars(make_console(stderr=True))
    progress = Bars(bars, log) if bars.console.is_terminal else Lines(bars, log)
    with bars if bars.console.is_terminal else nullcontext(), announcing(say=progress.log):
        yield progress


class RunBars(Progress):
    """Progress bars above the standing of the run. Below `MIN_WIDTH` columns, each piece of work has two short lines."""

    def __init__(self, console: Console) -> None:
        self._console, self._wide, self._narrow = console, make_columns(), (CompactColumn(),)
        self.standing: Standing | None = None
        self.shown_at = 0.0
        """Time of the display's clock at which the standing was found, in seconds."""
        super().__init__(console=console, refresh_per_second=REFRESHES_PER_SECOND)

    def show_standing(self, standing: Standing) -> None:
        """Show the standing of the run below the bars."""
        self.standing, self.shown_at = standing, self.get_time()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars and, if there are any, the standing."""
        is_narrow = self._console.width < MIN_WIDTH
        self.columns = self._narrow if is_narrow else self._wide
        yield from super().get_renderables()
        if self.standing and self.tasks:
            standing = count_down(self.standing, self.get_time() - self.shown_at)
            yield describe_standing(standing, self._console.width)


def make_columns() -> tuple[ProgressColumn, ...]:
    """Make the columns of a wide display: label, bar, count, elapsed time, time left and note."""
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )


def count_down(standing: Standing, passed_s: float) -> Standing:
    """Subtract the seconds passed from the time left; None if the run takes longer than estimated."""
    left = (standing.left_s or 0.0) - passed_s
    return replace(standing, left_s=left if left > 0 else None)


def describe_standing(standing: Standing, width: int) -> Text:
    """Describe the standing of a run in one line: in full, or in at most 60 columns if the width in columns does not suffice."""
    pace = [*describe_pace(standing)]
    text = " · ".join([f"last iteration: {describe_rate(standing)}", *pace])
    if len(text) > width:
        gain = "" if standing.gain is None else f" ({100 * standing.gain:+.1f})"
        short = [each.replace("sampled tokens", "tok").replace("run: about ", "run ") for each in pace]
        text = " · ".join([f"{standing.resolved_rate:.1%}{gain}", *short])
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")


class CompactColumn(ProgressColumn):
    """Only column of the progress bars in a narrow terminal: label, count and time left, and the note in a second line."""

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{task.total:.0f}"
        parts = [task.description, f"{task.completed:.0f}{total}", describe_left(task)]
        note = Text(f"\n  {task.fields['note']}" if task.fields["note"] else "", style="dim")
        return Text.assemble("  ".join(filter(None, parts)), note, no_wrap=True, overflow="ellipsis")

    def get_table_column(self) -> Column:
        return Column(no_wrap=True, overflow="ellipsis")


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

    def show_standing(self, standing: Standing) -> None:
        """Print nothing, since the message about the iteration has the standing."""


class Bars(MessagePrinter):
    """Progress display with a bar for each piece of work, below the printed messages."""

    def __init__(self, bars: RunBars, file: Path | None = None) -> None:
        super().__init__(bars.console, file)
        self._bars = bars

    def show_standing(self, standing: Standing) -> None:
        """Show the standing below the bars."""
        self._bars.show_standing(standing)

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
