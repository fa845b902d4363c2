"""The reading end of a pipe whose writers are not trusted, and may read from it themselves (/proc/self/fd)."""

import array
import fcntl
import os
import termios

CHUNK_BYTES = 1 << 16


class Pipe:
    """Keeps the first `limit` bytes of what is written and drops the rest, so that no writer is ever held up."""

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)  # what we were told of may be gone when we come
        self.fd = fd
        self.kept = bytearray()
        self.truncated = False
        self._limit = limit
        self._is_open = True

    def read(self) -> bool:
        """Take what is there; False at the end."""
        data = self._take(CHUNK_BYTES)
        self._keep(data or b"")
        return data != b""

    def close(self) -> None:
        os.close(self.fd)
        self._is_open = False

    def drain(self) -> None:
        """Take what the pipe holds at this moment, however fast others go on writing."""
        if not self._is_open:
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, waiting)
        remaining = waiting[0]
        while remaining > 0:
            data = self._take(remaining)
            if not data:
                return
            self._keep(data)
            remaining -= len(data)

    def ignore(self) -> None:
        """Drop all that follows."""
        self._limit = 0
        self.kept = bytearray()

    def _take(self, length: int) -> bytes | None:
        """None where nothing is there."""
        try:
            return os.read(self.fd, length)
        except BlockingIOError:
            return None

    def _keep(self, data: bytes) -> None:
        room = self._limit - len(self.kept)
        self.kept += data[: max(room, 0)]
        self.truncated |= len(data) > room
