"""Frames that host and supervisor exchange: the lengths of header and payload, a JSON header, a binary payload."""

import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

Header = dict[str, Any]

PREFIX = struct.Struct(">IQ")
"""Layout of the first bytes of a frame: header length and payload length, in bytes."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest file, in bytes, that `Sandbox.read` and `Sandbox.write` transfer."""

MAX_REPORT_BYTES = 16 << 20
"""Largest report of a command, in bytes; the rest is dropped."""

MAX_REQUEST_BYTES = 1 << 16
"""Largest packet, in bytes, between a sandbox provider and its spawner process."""

MAX_HEAD_BYTES = 1 << 20
"""Largest header of an answer, in bytes, that the host accepts from a sandbox."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one sandbox."""

    memory_bytes: int
    num_processes: int
    disk_bytes: int
    output_bytes: int

    @property
    def payload_bytes(self) -> int:
        """Return the largest payload of a sandbox's answer, in bytes."""
        return max(self.output_bytes + MAX_REPORT_BYTES, MAX_FILE_BYTES)


@dataclass(frozen=True)
class HostPython:
    """Parts of the host's Python installation that sandboxes see."""

    program: str
    """Path of the host's base interpreter, not of a virtual environment's."""
    prefix: str
    """Host folder with the interpreter and its standard library."""
    hidden: list[str]
    """Folders of installed packages below `prefix`, which appear empty in a sandbox."""
    runtime: str
    """Host folder with only pytest and its dependencies."""


@dataclass(frozen=True)
class StartRequest:
    """Request for a new sandbox, sent to the spawner together with one end of the sandbox's connection."""

    layers: list[str]
    workdir: str
    is_for_tests: bool
    environment: str
    """Host folder of the task's Python environment, mounted at `/environment`; empty for none."""


def pack(header: Header, payload: bytes = b"") -> bytes:
    """Encode a header and a payload as one frame."""
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
    """Receive a packet and the file descriptor sent with it; no descriptor if this process has too many open files."""
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
