"""The reading end of a pipe whose writers are not trusted."""

import array
import fcntl
import os
import termios

CHUNK_BYTES = 1 << 16


class Pipe:
    """Keeps the first `limit` bytes of what is written and drops the rest, so that no writer is ever held up."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.kept = bytearray()
        self.truncated = False
        self._limit = limit
        self._is_open = True

    def read(self) -> bool:
        """Take what is there, blocking where nothing is; False at the end."""
        data = os.read(self.fd, CHUNK_BYTES)
        self._keep(data)
        return bool(data)

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
            data = os.read(self.fd, remaining)
            self._keep(data)
            remaining -= len(data)

    def ignore(self) -> None:
        """Drop all that follows."""
        self._limit = 0
        self.kept = bytearray()

    def _keep(self, data: bytes) -> None:
        room = self._limit - len(self.kept)
        self.kept += data[: max(room, 0)]
        self.truncated |= len(data) > room
