"""The host's end of a sandbox's connection: many requests at once, each answered under its number."""

import asyncio
import itertools
import json
import socket
from collections.abc import Iterator
from typing import cast

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.wire import Header

Answer = tuple[Header, bytes]

STOPPED = "the sandbox was stopped"


class Connection(asyncio.Protocol):
    """Sends requests to a supervisor and hands each answer to the one who waits for it."""

    _transport: asyncio.WriteTransport

    def __init__(self, max_payload_bytes: int) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._death = ""

    @classmethod
    async def open(cls, end: socket.socket, max_payload_bytes: int) -> "Connection":
        """Take over a connected socket; an answer with a longer payload ends the sandbox."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(max_payload_bytes), sock=end)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, also where whoever opens is cancelled."""
        self._transport = cast(asyncio.WriteTransport, transport)

    async def request(self, header: Header, payload: bytes = b"", *, patience_s: float) -> Answer:
        """Send one request and wait for its answer. Raises SandboxError where the sandbox is dead or does not answer."""
        if self._death:
            raise SandboxError(self._death)
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(wire.pack({**header, "id": number}, payload))
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            self.close(f"the sandbox did not answer for {patience_s:.0f} s")
            raise SandboxError(self._death) from None
        finally:
            self._waiting.pop(number, None)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received += data
        try:
            while not self._death and (answer := self._take_answer()):
                self._hand_over(*answer)
        except Exception as error:  # hostile bytes fail in more ways than a list can name
            self.close(f"the sandbox sent what is no answer: {error!r}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.close("the sandbox died")

    def _take_answer(self) -> Answer | None:
        """The next frame, once it is whole. Raises ValueError as soon as it is known to be too long."""
        if len(self._received) < wire.PREFIX.size:
            return None
        head_length, payload_length = wire.PREFIX.unpack_from(self._received)
        if head_length > wire.MAX_HEAD_BYTES or payload_length > self._max_payload_bytes:
            raise ValueError(f"a frame of {head_length + payload_length} bytes")
        begin = wire.PREFIX.size + head_length
        end = begin + payload_length
        if len(self._received) < end:
            return None
        frame = bytes(self._received[:end])
        del self._received[:end]
        return json.loads(frame[wire.PREFIX.size : begin]), frame[begin:]

    def _hand_over(self, header: Header, payload: bytes) -> None:
        if "error" in header:
            self.close(f"the sandbox died: {header['error']}")
            return
        waiting = self._waiting.get(header["id"])
        if waiting and not waiting.done():  # else nobody waits any longer
            waiting.set_result((header, payload))

    async def stop(self, patience_s: float) -> None:
        """Have the supervisor end everyone, and hang up; a dead one has done so already."""
        try:
            await self.request({"op": "stop"}, patience_s=patience_s)
        except SandboxError:
            pass  # there is nothing left to stop
        finally:
            self.close(STOPPED)

    def close(self, reason: str) -> None:
        """Hang up, which ends the sandbox; whoever waits gets SandboxError with the first reason given."""
        self._death = self._death or reason
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(SandboxError(self._death))
        self._transport.close()
