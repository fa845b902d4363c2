"""Frames between host and supervisor: lengths, a JSON header, a binary payload."""

import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

Header = dict[str, Any]

PREFIX = struct.Struct(">IQ")
"""Header length and payload length, in bytes."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest file that `read` and `write` transfer."""

MAX_REPORT_BYTES = 16 << 20
"""Largest report of a command."""

MAX_REQUEST_BYTES = 1 << 16
"""Largest packet between a provider and its spawner."""

MAX_HEAD_BYTES = 1 << 20
"""Largest answer header that the host accepts."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one sandbox."""

    memory_bytes: int
    num_processes: int
    disk_bytes: int
    output_bytes: int

    @property
    def payload_bytes(self) -> int:
        """Return the largest payload of an answer."""
        return max(self.output_bytes + MAX_REPORT_BYTES, MAX_FILE_BYTES)


@dataclass(frozen=True)
class HostPython:
    """Host Python as sandboxes of a provider see it."""

    program: str
    """Base interpreter, not that of a virtual environment."""
    prefix: str
    """Folder of the interpreter and its standard library."""
    hidden: list[str]
    """Folders of installed packages below `prefix`; they appear empty."""
    runtime: str
    """Folder with pytest and its dependencies only."""


@dataclass(frozen=True)
class StartRequest:
    """Request for a new sandbox, sent to the spawner with the sandbox's end of the connection."""

    layers: list[str]
    workdir: str
    is_for_tests: bool
    environment: str
    """Host folder mounted at `/environment`; empty for none."""


def pack(header: Header, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    head = json.dumps(header).encode()
    return PREFIX.pack(len(head), len(payload)) + head + payload


def send(connection: socket.socket, header: Header, payload: bytes = b"") -> None:
    """Send one frame on a blocking socket."""
    connection.sendall(pack(header, payload))


def receive(connection: socket.socket) -> tuple[Header, bytes] | None:
    """Receive one frame from a blocking socket; None if the peer has disconnected."""
    try:
        head_length, payload_length = PREFIX.unpack(_receive_exactly(connection, PREFIX.size))
        header = json.loads(_receive_exactly(connection, head_length))
        return header, _receive_exactly(connection, payload_length)
    except (EOFError, ConnectionError):
        return None


def receive_descriptors(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a packet and its descriptor; the kernel drops the descriptor if the process has no room for it."""
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 1)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, descriptors


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(min(length - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
