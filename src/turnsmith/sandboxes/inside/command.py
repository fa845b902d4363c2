"""One command, by a shell or as a fork: its process, its output, its deadline, and the directory in which it ended."""

# ruff: noqa: PTH112

import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from turnsmith.sandboxes.inside.pipes import Pipe
from turnsmith.sandboxes.inside.toolbox import CWD_FD, REPORT_FD
from turnsmith.sandboxes.inside.wire import MAX_REPORT_BYTES, Header

MAX_PATH_BYTES = 4096
WARM = b"warm"
"""What a fork says in place of a directory, once it is sure that it need not start an interpreter."""

NOT_STARTED = 126
"""Exit code of a command that could not be started, as in a shell."""

_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ]
"""Signals that Python ignores or handles, back to what programs expect."""


@dataclass
class Command:
    """A running command. Its process id is also that of its session and process group."""

    request_id: int
    pid: int
    output: Pipe
    report: Pipe | None
    """What the command wrote to REPORT_FD, where it was given one."""
    cwd: str
    """Directory in which it began, and ended where the shell could not say."""
    cwd_fd: int
    started: float
    deadline: float
    timed_out: bool = False

    @property
    def pipes(self) -> list[Pipe]:
        return [self.output, self.report] if self.report else [self.output]

    def finish(self, status: int) -> tuple[Header, bytes]:
        """The answer, once the shell has ended. Processes in the background may still hold the pipe."""
        for pipe in self.pipes:
            pipe.drain()
        report = self.report.kept if self.report else b""
        last_word = self._last_word()
        payload = bytes(self.output.kept + report)
        header = {
            "id": self.request_id,
            "exit_code": _exit_code(status),
            "duration_s": time.monotonic() - self.started,
            "timed_out": self.timed_out,
            "truncated": self.output.truncated,
            "report_bytes": len(report),
            "is_warm": last_word == WARM,
            "cwd": self._last_cwd(last_word),
        }
        for pipe in self.pipes:
            pipe.ignore()
        return header, payload

    def _last_word(self) -> bytes:
        try:
            return os.read(self.cwd_fd, MAX_PATH_BYTES + 1)
        except BlockingIOError:
            return b""
        finally:
            os.close(self.cwd_fd)

    def _last_cwd(self, reported: bytes) -> str:
        """What the shell reported, if it is a directory: the report comes from untrusted code."""
        try:
            path = reported.decode().removesuffix("\n")
        except UnicodeDecodeError:
            return self.cwd  # nobody could show it
        is_plausible = path.startswith("/") and "\0" not in path and len(reported) <= MAX_PATH_BYTES
        return path if is_plausible and os.path.isdir(path) else self.cwd


@dataclass(frozen=True)
class Streams:
    """The descriptors of a new process."""

    stdin: int
    output: int
    cwd: int
    """Where it says in which directory it ended."""
    report: int | None
    """Where it may say what is not for its output."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """Each descriptor, and the number by which the process finds it."""
        standard = [(self.stdin, 0), (self.output, 1), (self.output, 2)]
        return standard if self.report is None else [*standard, (self.report, REPORT_FD)]


Spawn = Callable[[Streams], int]
"""Start a process in a session of its own; returns its process id."""


def start_command(request: Header, stdin: bytes, spawn: Spawn, output_bytes: int) -> Command:
    """Start a process for a request. Raises OSError or ValueError where it cannot be started."""
    os.chdir(request["cwd"])
    started = time.monotonic()
    with ExitStack() as theirs, ExitStack() as ours:
        theirs.callback(os.chdir, "/")
        output, output_writer = _open_pipe(ours, theirs)
        cwd, cwd_writer = _open_pipe(ours, theirs)
        report, report_writer = _open_pipe(ours, theirs) if request["has_report"] else (None, None)
        theirs.callback(os.close, readable := _readable(stdin))
        pid = spawn(Streams(readable, output_writer, cwd_writer, report_writer))
        ours.pop_all()
    os.set_blocking(cwd, False)
    return Command(
        request_id=request["id"],
        pid=pid,
        output=Pipe(output, output_bytes),
        report=Pipe(report, MAX_REPORT_BYTES) if report else None,
        cwd=request["cwd"],
        cwd_fd=cwd,
        started=started,
        deadline=started + request["timeout_s"],
    )


def _open_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing


def spawn_bash(command: str, environment: dict[str, str], streams: Streams) -> int:
    """Bash on a command; by posix_spawn, which copies no memory."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, place) for fd, place in (*streams.places, (streams.cwd, CWD_FD))]
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
    has_room = len(content) <= fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)  # less where a user has a thousand pipes
    if has_room:
        os.write(writing, content)
    os.close(writing)
    if has_room:
        return reading
    os.close(reading)
    return _filled_file(content)


def _filled_file(content: bytes) -> int:
    with os.fdopen(os.open("/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def _exit_code(status: int) -> int:
    """A wait status as a shell states it: 128 + signal where a signal ended the process."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
