"""Reads and writes of files as the sandbox's user, in a child process, so that a failure does not end the supervisor."""

# ruff: noqa: PTH103, PTH120, PTH123

import errno
import os
import stat

from turnsmith.sandboxes.inside.command import Streams
from turnsmith.sandboxes.inside.wire import MAX_FILE_BYTES, Header

OPERATIONS = ("read", "write")


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
