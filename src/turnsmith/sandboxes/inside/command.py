"""Processes that the supervisor starts: commands, and children that read or write a file for the host."""

# ruff: noqa: PTH103, PTH112, PTH120, PTH123

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from turnsmith.sandboxes.inside.toolbox import CWD_FD, REPORT_FD
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, MAX_REPORT_BYTES, Header

OPERATIONS = ("read", "write")
"""Names of the requests to the supervisor that access one file."""
MAX_PATH_BYTES = 4096
WARM = b"warm"
"""Text that a forked pytest writes to CWD_FD, so that the host knows of the fork. A shell writes its last directory there."""

NOT_STARTED = 126
"""Exit code of a command that could not start; shells use the same code."""

_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ]
"""Signals that Python ignores or handles; commands start with their default actions."""

Streams = dict[int, int]
"""File descriptor in the child process → file descriptor in the supervisor."""
Spawn = Callable[[Streams], int]
"""Function that starts a process in a new session and returns its process id."""


class Pipe:
    """Reading end of a pipe. Its untrusted writers may also take data out of it, so reads never wait for data.

    The first `limit` bytes are kept and the rest is dropped, so that writers never block.
    """

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)  # a writer may read the data first, through /proc/self/fd
        self.fd = fd
        self.truncated = False
        self._kept = bytearray()
        self._limit = limit
        self._is_open = True

    def read(self) -> bool:
        """Read the data that is in the pipe now, without waiting for more. Return False at end of file."""
        try:
            data = os.read(self.fd, fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ))
        except BlockingIOError:
            return True
        room = self._limit - len(self._kept)
        self._kept += data[:room]
        self.truncated |= len(data) > room
        return data != b""

    def finish(self) -> bytes:
        """Return the data kept so far, after one last read of the pipe; drop all later data."""
        if self._is_open:
            self.read()
        kept, self._kept, self._limit = bytes(self._kept), bytearray(), 0
        return kept

    def close(self) -> None:
        os.close(self.fd)
        self._is_open = False


@dataclass
class Command:
    """Running command. The id of its process is also the id of its session and of its process group."""

    request: Header
    pid: int
    pipes: list[Pipe]
    """Pipes for the command's output, its report, and the directory in which its shell ended (`WARM` if pytest was forked)."""
    started: float
    deadline: float
    timed_out: bool = False

    def finish(self, status: int) -> tuple[Header, bytes]:
        """Build the answer from the wait status and the data sent so far. Background processes may keep the pipes open."""
        output, report, last_word = (pipe.finish() for pipe in self.pipes)
        code = os.waitstatus_to_exitcode(status)
        header = {
            "id": self.request["id"],
            "exit_code": code if code >= 0 else 128 - code,  # shell convention for signals
            "duration_s": time.monotonic() - self.started,
            "timed_out": self.timed_out,
            "truncated": self.pipes[0].truncated,
            "report_bytes": len(report),
            "is_warm": last_word == WARM,
            "cwd": _read_directory(last_word) or self.request["cwd"],
        }
        return header, output + report


def _read_directory(reported: bytes) -> str | None:
    """Return the directory in which the shell ended; None if its untrusted report names no directory."""
    try:
        path = reported.decode().removesuffix("\n")
    except UnicodeDecodeError:
        return None  # not representable as text
    is_plausible = path.startswith("/") and "\0" not in path and len(reported) <= MAX_PATH_BYTES
    return path if is_plausible and os.path.isdir(path) else None


def start_command(request: Header, stdin: bytes, spawn: Spawn, max_output: int) -> Command:
    """Start a process for the host's request. Raises OSError or ValueError if the process cannot start."""
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
    """Start a command in bash, by posix_spawn, which copies no memory; return the process id."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in streams.items()]
    arguments = ["bash", "-c", command]
    return os.posix_spawn(
        "/bin/bash", arguments, environment, setsid=True, setsigdef=_RESET_SIGNALS, file_actions=actions
    )


def not_started(request: Header, error: Exception) -> tuple[Header, bytes]:
    """Build the answer for a command that could not start, such as one with a missing directory."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    header = {"id": request["id"], "exit_code": NOT_STARTED, "duration_s": 0.0, "cwd": request["cwd"]}
    return header, f"bash: {request['cwd']}: {reason}\n".encode(errors="replace")


def _readable(content: bytes) -> int:
    """Return a file descriptor from which a child process can read `content`; all data is already in it."""
    if not content:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        if len(content) <= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):  # smaller if the user has very many pipes
            pipe.write(content)
            return reading
    os.close(reading)
    with open(os.open("/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def fork_access(request: Header, content: bytes, streams: Streams) -> int:
    """Fork a child that reads or writes a file; return the child's process id.

    The child outputs the file's content; its exit code is an errno. Raises OSError.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            answer = read_file(request["path"]) if request["op"] == "read" else write_file(request["path"], content)
            with open(streams[1], "wb") as output:
                output.write(answer)
        except OSError as error:
            os._exit(error.errno or errno.EIO)
        except ValueError:
            os._exit(errno.EINVAL)
        except BaseException:
            os._exit(errno.EIO)
        os._exit(0)  # skip the parent's clean-up
    return pid


def read_file(path: str) -> bytes:
    """Read a regular file of at most 64 MB."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a named pipe must not block
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EACCES, "not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, "larger than 64 MB")
    return content


def write_file(path: str, content: bytes) -> bytes:
    """Write a regular file, creating its parent directories. Return no bytes."""
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    with open(fd, "wb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EACCES, "not a regular file")
        os.ftruncate(fd, 0)
        file.write(content)
    return b""
