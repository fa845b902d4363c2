"""Reading and writing files as the sandbox's own user, in a child that can fail without harm."""

# ruff: noqa: PTH103, PTH120, PTH123

import errno
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.pipes import Pipe
from turnsmith.sandboxes.inside.wire import Header

ERRNO_BYTES = 4
"""The child's answer begins with an error number of this size; 0 where all went well."""


@dataclass
class FileAccess:
    """A running child that reads or writes files, and answers through a pipe."""

    request_id: int
    pid: int
    output: Pipe
    deadline: float
    timed_out: bool = False

    def finish(self, status: int) -> tuple[Header, bytes]:
        """The answer, once the child has ended; that of one that was killed may be cut, and counts for nothing."""
        self.output.drain()
        answer = bytes(self.output.kept) if status == 0 else errno.EIO.to_bytes(ERRNO_BYTES, "big")
        return {"id": self.request_id, "errno": int.from_bytes(answer[:ERRNO_BYTES], "big")}, answer[ERRNO_BYTES:]


def start_access(request: Header, content: bytes) -> FileAccess:
    """Fork the child. Raises OSError."""
    output, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(output)
        os.close(writer)
        raise
    if pid == 0:
        _answer(writer, request, content)
    os.close(writer)
    return FileAccess(request["id"], pid, Pipe(output, sys.maxsize), time.monotonic() + request["timeout_s"])


def _answer(writer: int, request: Header, content: bytes) -> NoReturn:
    """Be the child: do it, write error number and content, and leave without any clean-up of the parent's state."""
    try:
        os.setsid()
        error_number, answer = _attempt(request, content)
        with open(writer, "wb") as pipe:
            pipe.write(error_number.to_bytes(ERRNO_BYTES, "big"))
            pipe.write(answer)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _attempt(request: Header, content: bytes) -> tuple[int, bytes]:
    try:
        path = request["path"]
        return 0, read_file(path) if request["op"] == "read" else write_file(path, content)
    except OSError as error:
        return error.errno or errno.EIO, b""
    except ValueError:
        return errno.EINVAL, b""


def read_file(path: str) -> bytes:
    """The content of a regular file of at most 64 MB."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a named pipe must not hold us up
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EACCES, "not a regular file")
        content = file.read(wire.MAX_FILE_BYTES + 1)
    if len(content) > wire.MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, "larger than 64 MB")
    return content


def write_file(path: str, content: bytes) -> bytes:
    """Write a regular file, making its parent directories; the answer is empty."""
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    with open(fd, "wb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EACCES, "not a regular file")
        os.ftruncate(fd, 0)
        file.write(content)
    return b""
