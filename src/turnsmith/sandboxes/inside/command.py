"""One command, by a shell or as a fork: its process, its output, its deadline, and the directory in which it ended."""

# ruff: noqa: PTH112

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from turnsmith.sandboxes.inside.pipes import Pipe
from turnsmith.sandboxes.inside.toolbox import CWD_FD
from turnsmith.sandboxes.inside.wire import Header

MAX_PATH_BYTES = 4096
PIPE_BYTES = 1 << 16
"""What a pipe holds without a reader."""

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
    cwd: str
    """Directory in which it began, and ended where the shell could not say."""
    cwd_fd: int
    started: float
    deadline: float
    timed_out: bool = False

    def finish(self, status: int) -> tuple[Header, bytes]:
        """The answer, once the shell has ended. Processes in the background may still hold the pipe."""
        self.output.drain()
        payload = bytes(self.output.kept)
        header = {
            "id": self.request_id,
            "exit_code": _exit_code(status),
            "duration_s": time.monotonic() - self.started,
            "timed_out": self.timed_out,
            "truncated": self.output.truncated,
            "cwd": self._last_cwd(),
        }
        self.output.ignore()
        return header, payload

    def _last_cwd(self) -> str:
        """What the shell reported, if it is a directory: the report comes from untrusted code."""
        try:
            reported = os.read(self.cwd_fd, MAX_PATH_BYTES + 1)
        except BlockingIOError:
            reported = b""
        os.close(self.cwd_fd)
        try:
            path = reported.decode().removesuffix("\n")
        except UnicodeDecodeError:
            return self.cwd  # nobody could show it
        is_plausible = path.startswith("/") and "\0" not in path and len(reported) <= MAX_PATH_BYTES
        return path if is_plausible and os.path.isdir(path) else self.cwd


Spawn = Callable[[int, int, int], int]
"""Start a process, in a session of its own: descriptors of its input, its output and the report of its directory → process id."""


def start_command(request: Header, stdin: bytes, spawn: Spawn, output_bytes: int) -> Command:
    """Start a process for a request. Raises OSError or ValueError where it cannot be started."""
    os.chdir(request["cwd"])
    started = time.monotonic()
    stdin_fd = _readable(stdin)
    output, output_writer = os.pipe()
    cwd_fd, cwd_writer = os.pipe()
    try:
        pid = spawn(stdin_fd, output_writer, cwd_writer)
    except (OSError, ValueError):
        os.close(output)
        os.close(cwd_fd)
        raise
    finally:
        for fd in (stdin_fd, output_writer, cwd_writer):
            os.close(fd)
        os.chdir("/")
    os.set_blocking(cwd_fd, False)
    pipe = Pipe(output, output_bytes)
    return Command(request["id"], pid, pipe, request["cwd"], cwd_fd, started, started + request["timeout_s"])


def spawn_bash(command: str, environment: dict[str, str], stdin_fd: int, output_fd: int, cwd_fd: int) -> int:
    """Bash on a command; by posix_spawn, which copies no memory."""
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin_fd, 0),
        (os.POSIX_SPAWN_DUP2, output_fd, 1),
        (os.POSIX_SPAWN_DUP2, output_fd, 2),
        (os.POSIX_SPAWN_DUP2, cwd_fd, CWD_FD),
    ]
    arguments = ["bash", "-c", command]
    return os.posix_spawn(
        "/bin/bash", arguments, environment, setsid=True, setsigdef=_RESET_SIGNALS, file_actions=actions
    )


def not_started(request: Header, error: Exception) -> tuple[Header, bytes]:
    """The answer where the command could not be started: the doing of whoever asked, so an ordinary result."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    header = {
        "id": request["id"],
        "exit_code": NOT_STARTED,
        "duration_s": 0.0,
        "timed_out": False,
        "truncated": False,
        "cwd": request["cwd"],
    }
    return header, f"bash: {request['cwd']}: {reason}\n".encode(errors="replace")


def _readable(content: bytes) -> int:
    """A file descriptor from which the content can be read without anyone feeding it."""
    if not content:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    return _filled_pipe(content) if len(content) <= PIPE_BYTES else _filled_file(content)


def _filled_pipe(content: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


def _filled_file(content: bytes) -> int:
    """A nameless file among what the sandbox has written, within its disk limit."""
    fd = os.open("/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _exit_code(status: int) -> int:
    """A wait status as a shell states it: 128 + signal where a signal ended the process."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
