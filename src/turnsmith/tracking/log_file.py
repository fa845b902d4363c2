"""Progress of runs without a terminal: messages are written to a log file, and counts are dropped."""

from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path

from turnsmith.tracking import Standing


class LogFile:
    """Progress that appends each message to a file, as one line with the time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def work(self, label: str, total: int | None, num_done: int = 0) -> AbstractContextManager["LogFile"]:
        """Show nothing during the block."""
        return nullcontext(self)

    def advance(self, num: int = 1, note: str = "") -> None:
        """Ignore the count: a log file shows no progress bar."""

    def log(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now().isoformat(sep=' ', timespec='seconds')} {text}\n")

    def show_standing(self, standing: Standing) -> None:
        """Ignore the standing: the message about the iteration has it."""
