"""Handling of Ctrl-C and SIGTERM: print a message, shut down in order, and exit after PATIENCE_S at the latest.

A thread reads the signals, since the main thread may compute for minutes. A forced exit loses no finished work: run folders,
journals and task folders survive `kill -9`.
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
"""Time limit in seconds for an orderly shutdown. It is below the 30 s after which Kubernetes kills a process."""
ECHO_S = 0.5
"""Seconds after the first signal in which others are ignored, since the program `timeout` sends signals twice."""
SIGNALED = 128
"""Number that is added to a signal's number to make the exit code."""
EXIT_STOPPED = SIGNALED + signal.SIGINT


def print_line(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Interruption:
    """Signal that ends this process, and the announcement on standard error."""

    signal: int = 0
    """Number of the received signal; 0 if none was received."""
    remark: str = ""
    """Sentence that tells the user how to continue the interrupted work later."""
    say: Callable[[str], None] = print_line

    def announce(self) -> None:
        """Announce on standard error that the process ends because of the signal."""
        text = f"stopping: this takes up to {PATIENCE_S:.0f} s, a second Ctrl-C exits at once"
        with suppress(OSError):  # the disk may be full, or the reader may be gone
            self.say("; ".join(filter(None, [text, self.remark])))


_interruption = Interruption()
"""Interruption of this process. It is global, since signals are handled per process."""


def listen() -> None:
    """Handle SIGINT and SIGTERM from now on. Call it in the main thread. If SIGINT is ignored, as after `nohup`, do nothing."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, _end_in_order)
    Thread(target=_watch, args=(reader,), daemon=True).start()


@contextmanager
def announcing(*, remark: str | None = None, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Set how a signal during the `with` block is announced: with `remark`, or by calling `say`."""
    before = _interruption.remark, _interruption.say
    _interruption.remark, _interruption.say = remark or before[0], say or before[1]
    try:
        yield
    finally:
        _interruption.remark, _interruption.say = before


@contextmanager
def ending_quickly() -> Iterator[None]:
    """Exit without the Python interpreter's own shutdown if a signal made the program leave the `with` block."""
    try:
        yield
    except SystemExit as ending:
        if _interruption.signal and isinstance(ending.code, int):
            _flush()
            _end(_find_code() if ending.code == EXIT_STOPPED else ending.code)
        raise


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader may be gone
            stream.flush()


def _find_code() -> int:
    return SIGNALED + _interruption.signal


def _end_in_order(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C is handled, and ignore later SIGTERMs."""
    _interruption.signal = number
    signal.signal(signal.SIGTERM, lambda *_: None)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


def _watch(reader: int) -> None:
    """Wait on a pipe for the first signal and announce the exit; force it at a second Ctrl-C, or after PATIENCE_S."""
    while (number := os.read(reader, 1)[0]) not in (signal.SIGINT, signal.SIGTERM):
        pass
    _interruption.signal = number
    Thread(target=_interruption.announce, daemon=True).start()  # writing to a terminal may block
    _wait_for_second(reader)
    _end(_find_code())


def _wait_for_second(reader: int) -> None:
    """Return at a second Ctrl-C, but at the latest PATIENCE_S after the first; the caller then forces the exit."""
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < PATIENCE_S:
        if select.select([reader], [], [], PATIENCE_S - waited)[0]:
            number = os.read(reader, 1)[0]
            if number == signal.SIGINT and time.monotonic() - begin > ECHO_S:
                return


def _end(code: int) -> NoReturn:
    """Kill the descendants of this process and exit at once."""
    for process in living_descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    os._exit(code)
