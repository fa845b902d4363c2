"""Ctrl-C and SIGTERM: one line at once, then an end in order, and after PATIENCE_S an end in any case.

A thread reads the signals, so the main thread may compute for minutes. An end in any case loses nothing: a run folder, its
journals and task folders outlive `kill -9`.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from types import FrameType
from typing import NoReturn

from turnsmith.sandboxes.inside.processes import living_descendants

PATIENCE_S = 8.0
"""Seconds for an end in order. Kubernetes kills 30 s after SIGTERM."""
ECHO_S = 0.5
"""Signals this soon after the first belong to it: `timeout` sends each signal twice."""
SIGNALED = 128
"""The exit code of a process that a signal ended is the signal's number above this."""
EXIT_STOPPED = SIGNALED + signal.SIGINT


def print_line(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Interruption:
    """The request to end this process, and its announcement."""

    signal: int = 0
    """The signal that asked for it; 0 as long as none has."""
    remark: str = ""
    """The way to go on later."""
    say: Callable[[str], None] = print_line

    def announce(self) -> None:
        """Say that the process ends."""
        text = f"stopping: this takes up to {PATIENCE_S:.0f} s, a second Ctrl-C ends it at once"
        with suppress(OSError):  # the disk may be full, or nobody reads
            self.say("; ".join(filter(None, [text, self.remark])))


_interruption = Interruption()
"""Signals belong to the process, and so does this."""


def listen() -> None:
    """Take SIGINT and SIGTERM from now on; for the main thread. Where SIGINT is ignored, as after `nohup`, change nothing."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, _end_in_order)
    Thread(target=_watch, args=(reader,), daemon=True).start()


@contextmanager
def announcing(*, remark: str | None = None, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Announce a request that comes in this block with this remark, or by this function."""
    before = _interruption.remark, _interruption.say
    _interruption.remark, _interruption.say = remark or before[0], say or before[1]
    try:
        yield
    finally:
        _interruption.remark, _interruption.say = before


@contextmanager
def ending_quickly() -> Iterator[None]:
    """Exit without interpreter shutdown if a signal asked for the end."""
    try:
        yield
    except SystemExit as ending:
        if _interruption.signal and isinstance(ending.code, int):
            _flush()
            _end(_find_code() if ending.code == EXIT_STOPPED else ending.code)
        raise


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any longer
            stream.flush()


def _find_code() -> int:
    return SIGNALED + _interruption.signal


def _end_in_order(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does, once."""
    _interruption.signal = number
    signal.signal(signal.SIGTERM, lambda *_: None)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _watch(reader: int) -> None:
    """Wait for the first request, announce it, and end the process where it does not end by itself."""
    while (number := os.read(reader, 1)[0]) not in (signal.SIGINT, signal.SIGTERM):
        pass
    _interruption.signal = number
    Thread(target=_interruption.announce, daemon=True).start()  # it may wait for a terminal
    _wait_for_second(reader)
    _end(_find_code())


def _wait_for_second(reader: int) -> None:
    """Wait until Ctrl-C comes again, or patience ends."""
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < PATIENCE_S:
        if select.select([reader], [], [], PATIENCE_S - waited)[0]:
            number = os.read(reader, 1)[0]
            if number == signal.SIGINT and time.monotonic() - begin > ECHO_S:
                return


def _end(code: int) -> NoReturn:
    """End this process now, and with it what it has started."""
    for process in living_descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    os._exit(code)
