"""One command, by a shell or as a fork: its process, its output, its deadline, and the directory in which it ended."""

# ruff: noqa: PTH112, PTH123

import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from turnsmith.sandboxes.inside.toolbox import CWD_FD, REPORT_FD
from turnsmith.sandboxes.inside.wire import MAX_REPORT_BYTES, Header

MAX_PATH_BYTES = 4096
WARM = b"warm"
"""What a fork says in place of a directory, once it is sure that it need not start an interpreter."""

NOT_STARTED = 126
"""Exit code of a command that could not be started, as in a shell."""

_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ]
"""Signals that Python ignores or handles, back to what programs expect."""

Streams = dict[int, int]
"""From the number by which a process finds a descriptor to the descriptor."""
Spawn = Callable[[Streams], int]
"""Start a process in a session of its own; returns its process id."""


class Pipe:
    """The reading end of a pipe whose writers are not trusted, and may read from it themselves (/proc/self/fd).

    Keeps the first `limit` bytes of what is written and drops the rest, so that no writer is ever held up.
    """

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)  # what we were told of may be gone when we come
        self.fd = fd
        self.truncated = False
        self._kept = bytearray()
        self._limit = limit
        self._is_open = True

    def read(self) -> bool:
        """Take what is there at this moment, however fast others go on writing; False at the end."""
        try:
            data = os.read(self.fd, fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ))
        except BlockingIOError:
            return True
        room = self._limit - len(self._kept)
        self._kept += data[:room]
        self.truncated |= len(data) > room
        return data != b""

    def finish(self) -> bytes:
        """What was kept, with what is there at this moment; all that follows is dropped."""
        if self._is_open:
            self.read()
        kept, self._kept, self._limit = bytes(self._kept), bytearray(), 0
        return kept

    def close(self) -> None:
        os.close(self.fd)
        self._is_open = False


@dataclass
class Command:
    """A running command. Its process id is also that of its session and process group."""

    request: Header
    pid: int
    pipes: list[Pipe]
    """Its output, its report, and its last word: in which directory it ended, or that it is warm."""
    started: float
    deadline: float
    timed_out: bool = False

    def finish(self, status: int) -> tuple[Header, bytes]:
        """The answer, once its process has ended. Others in the background may still hold the pipes."""
        output, report, last_word = (pipe.finish() for pipe in self.pipes)
        code = os.waitstatus_to_exitcode(status)
        header = {
            "id": self.request["id"],
            "exit_code": code if code >= 0 else 128 - code,  # as a shell states a signal
            "duration_s": time.monotonic() - self.started,
            "timed_out": self.timed_out,
            "truncated": self.pipes[0].truncated,
            "report_bytes": len(report),
            "is_warm": last_word == WARM,
            "cwd": _read_directory(last_word) or self.request["cwd"],
        }
        return header, output + report


def _read_directory(reported: bytes) -> str | None:
    """What the shell reported, if it is a directory: the report comes from untrusted code."""
    try:
        path = reported.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return None  # nobody could show it
    is_plausible = path.startswith("/") and "\0" not in path and len(reported) <= MAX_PATH_BYTES
    return path if is_plausible and os.path.isdir(path) else None


def start_command(request: Header, stdin: bytes, spawn: Spawn, max_output: int) -> Command:
    """Start a process for a request. Raises OSError or ValueError where it cannot be started."""
    os.chdir(request["cwd"])
    started = time.monotonic()
    with ExitStack() as theirs, ExitStack() as ours:
        theirs.callback(os.chdir, "/")
        pipes: list[Pipe] = []
        streams: Streams = {}
        for limit, places in ((max_output, (1, 2)), (MAX_REPORT_BYTES, (REPORT_FD,)), (MAX_PATH_BYTES + 1, (CWD_FD,))):
            reading, writing = os.pipe()
            ours.callback(os.close, reading)
            theirs.callback(os.close, writing)
            pipes.append(Pipe(reading, limit))
            streams |= dict.fromkeys(places, writing)
        theirs.callback(os.close, readable := _readable(stdin))
        pid = spawn({0: readable, **streams})
        ours.pop_all()
    return Command(request, pid, pipes, started, started + request["timeout_s"])


def spawn_bash(command: str, environment: dict[str, str], streams: Streams) -> int:
    """Bash on a command; by posix_spawn, which copies no memory."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in streams.items()]
    arguments = ["bash", "-c", command]
    return os.posix_spawn(
        "/bin/bash", arguments, environment, setsid=True, setsigdef=_RESET_SIGNALS, file_actions=actions
    )


def not_started(request: Header, error: Exception) -> tuple[Header, bytes]:
    """The answer where the command could not be started: the doing of whoever asked, so an ordinary result."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    header = {"id": request["id"], "exit_code": NOT_STARTED, "duration_s": 0.0, "cwd": request["cwd"]}
    return header, f"bash: {request['cwd']}: {reason}\n".encode(errors="replace")


def _readable(content: bytes) -> int:
    """A file descriptor from which the content can be read without anyone feeding it."""
    if not content:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        if len(content) <= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):  # less where a user has a thousand pipes
            pipe.write(content)
            return reading
    os.close(reading)
    with open(os.open("/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())
