"""Supervisor: process 1 of a sandbox, which answers the host's requests, reaps children and enforces limits.

The supervisor runs one loop in one thread. It ends when the host disconnects; the kernel then kills all other processes of
the sandbox.
"""

import errno
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from turnsmith.sandboxes.inside import kernel, processes, toolbox, wire
from turnsmith.sandboxes.inside.command import (
    OPERATIONS,
    Command,
    Pipe,
    Spawn,
    fork_access,
    not_started,
    spawn_bash,
    start_command,
)
from turnsmith.sandboxes.inside.warm import fork_pytest, until_forked
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header, Limits

WATCH_INTERVAL_S = 0.1
"""Seconds between checks of memory use while processes run."""

LEFTOVER_SHARE = 0.5
"""Share of the process limit above which the background processes of ended commands count as a fork bomb."""

_SHORT = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class ExhaustedError(Exception):
    """Error raised if a sandbox has no processes, file descriptors or memory left for a command."""


class Supervisor:
    """Server of the requests to one sandbox, until `stop` or a disconnect. Raises Forked in children that will run pytest."""

    def __init__(self, connection: socket.socket, limits: Limits, process_limits: dict[int, int], toolbox: str) -> None:
        self._connection = connection
        self._limits = limits
        self._process_limits = process_limits
        self._toolbox = toolbox
        self._jobs: dict[int, Command] = {}
        self._selector = selectors.PollSelector()  # epoll instances count per user, across all sandboxes
        self._is_open = True
        self._is_busy = False
        self._next_watch = 0.0

    def run(self) -> None:
        """Serve requests until the host asks to stop or disconnects; then kill all processes."""
        self._listen(self._connection.fileno(), self._serve)
        wake_fd = wake_on_child()
        self._listen(wake_fd, lambda: os.read(wake_fd, 1 << 16))
        while self._is_open:
            for key, _ in self._selector.select(self._time_to_wait()):
                key.data()
            self._reap()
            self._end_overdue()
            self._watch()
        processes.end_all()

    def _listen(self, fd: int, handler: Callable[[], object]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, handler)

    def _time_to_wait(self) -> float | None:
        """Return the seconds until the next check of deadlines or memory; None if no process runs."""
        if not self._is_busy:
            return None
        next_deadline = min((job.deadline for job in self._jobs.values()), default=float("inf"))
        return max(min(self._next_watch, next_deadline) - time.monotonic(), 0.0)

    def _serve(self) -> None:
        frame = wire.receive(self._connection)
        if frame is None:
            self._is_open = False
            return
        request, payload = frame
        if request["op"] == "stop":
            self._jobs.clear()
            self._kill_all()
            wire.send(self._connection, {"id": request["id"]})
            self._is_open = False
        elif request["op"] == "exec":
            environment = {**request["env"], "BASH_ENV": f"{self._toolbox}/shell.sh"}
            self._start(request, payload, partial(spawn_bash, request["command"], environment))
        elif request["op"] == "pytest":
            self._start(request, payload, partial(fork_pytest, request, self._process_limits))
        else:
            self._start({**request, "cwd": "/"}, b"", partial(fork_access, request, payload))

    def _kill_all(self) -> None:
        for pid, status in processes.kill_and_reap_all():
            self._answer(pid, status)

    def _start(self, request: Header, stdin: bytes, spawn: Spawn) -> None:
        max_output = MAX_FILE_BYTES if request["op"] in OPERATIONS else self._limits.output_bytes
        try:
            command = self._begin(partial(start_command, request, stdin, spawn, max_output))
        except (OSError, ValueError) as error:
            wire.send(self._connection, *not_started(request, error))
            return
        self._jobs[command.pid] = command
        if not self._is_busy:
            self._is_busy, self._next_watch = True, time.monotonic() + WATCH_INTERVAL_S
        for pipe in command.pipes:
            self._listen(pipe.fd, partial(self._collect, pipe))

    def _begin(self, start: Callable[[], Command]) -> Command:
        """Start a command. If a resource is exhausted, kill all processes and retry once. Raises ExhaustedError."""
        try:
            return start()
        except OSError as error:
            if error.errno not in _SHORT:
                raise
        try:
            self._kill_all()
            return start()
        except OSError as error:
            raise ExhaustedError(error.strerror) if error.errno in _SHORT else error from None

    def _collect(self, pipe: Pipe) -> None:
        """Read output from a pipe, also after the command has ended, since background processes may still write."""
        if not pipe.read():
            self._selector.unregister(pipe.fd)
            pipe.close()

    def _reap(self) -> None:
        while self._is_busy:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_busy = False
                return
            if pid == 0:
                return
            self._answer(pid, status)

    def _answer(self, pid: int, status: int) -> None:
        if pid in self._jobs:
            wire.send(self._connection, *self._jobs.pop(pid).finish(status))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        overdue = [job for job in self._jobs.values() if job.deadline <= now]
        for job in overdue:
            job.timed_out, job.deadline = True, float("inf")
        if overdue:
            processes.end_all({pid for pid, job in self._jobs.items() if not job.timed_out})

    def _watch(self) -> None:
        """Kill all processes if their memory exceeds the limit, or if the leftovers of ended commands are a fork bomb."""
        if not self._is_busy or time.monotonic() < self._next_watch:
            return
        ours = {pid for pid, job in self._jobs.items() if job.request["op"] in OPERATIONS}  # bounded by themselves
        running = [process for process in processes.living_descendants() if process.pid not in ours]
        is_bomb = not self._jobs and len(running) > self._limits.num_processes * LEFTOVER_SHARE
        if is_bomb or processes.uses_more_than(self._limits.memory_bytes, running):
            processes.end_all()
        self._next_watch = time.monotonic() + WATCH_INTERVAL_S


def wake_on_child() -> int:
    """Return a file descriptor that becomes readable when a child process ends."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


@contextmanager
def reporting_errors(connection: socket.socket) -> Iterator[None]:
    """Report an exception of the `with` block to the host, then wait until the host disconnects."""
    try:
        yield
    except Exception as error:
        wire.send(connection, {"error": f"{type(error).__name__}: {error}"})
        while connection.recv(1 << 16):
            pass


@until_forked
def main() -> None:
    """Run the supervisor as an ordinary process without isolation, connected to the host by stdin.

    The command-line arguments are the folder of the sandbox and the four fields of `Limits`.
    """
    folder, *numbers = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    limits = Limits(*map(int, numbers))
    connection = socket.socket(fileno=os.dup(0))
    with reporting_errors(connection):
        Supervisor(
            connection, limits, toolbox.resource_limits(limits, has_own_processes=False), f"{folder}/toolbox"
        ).run()
