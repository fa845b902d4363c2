"""Host's connection to the supervisor of a sandbox: concurrent requests, with answers matched by id."""

import asyncio
import itertools
import json
import socket

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.inside.wire import Header

Answer = tuple[Header, bytes]

STOPPED = "the sandbox was stopped"


class Connection:
    """Client of the supervisor in a sandbox; concurrent requests share one socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_payload_bytes: int) -> None:
        self._reader = reader
        self._writer = writer
        self._max_payload_bytes = max_payload_bytes
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self._death = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, end: socket.socket, max_payload_bytes: int) -> "Connection":
        """Wrap a connected socket. The connection closes if an answer's payload is longer than `max_payload_bytes`."""
        return cls(*await asyncio.open_connection(sock=end), max_payload_bytes)

    async def request(self, header: Header, payload: bytes = b"", *, patience_s: float) -> Answer:
        """Send a request and return its answer. Raises SandboxError if the sandbox is dead or does not answer."""
        if self._death:
            raise SandboxError(self._death)
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(wire.pack({**header, "id": number}, payload))
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            self.close(f"the sandbox did not answer for {patience_s:.0f} s")
            raise SandboxError(self._death) from None
        finally:
            self._waiting.pop(number, None)

    async def _listen(self) -> None:
        try:
            while not self._death:
                self._hand_over(*await self._receive())
        except (EOFError, OSError):
            self.close("the sandbox died")
        except Exception as error:  # untrusted bytes can raise any exception
            self.close(f"the sandbox sent an invalid answer: {error!r}")

    async def _receive(self) -> Answer:
        """Receive the next answer of the sandbox. Raises ValueError if its announced length is too large."""
        head_length, payload_length = wire.PREFIX.unpack(await self._reader.readexactly(wire.PREFIX.size))
        if head_length > wire.MAX_HEAD_BYTES or payload_length > self._max_payload_bytes:
            raise ValueError(f"a frame of {head_length + payload_length} bytes is longer than allowed")
        head = await self._reader.readexactly(head_length)
        return json.loads(head), await self._reader.readexactly(payload_length)

    def _hand_over(self, header: Header, payload: bytes) -> None:
        if "error" in header:
            self.close(f"the sandbox died: {header['error']}")
            return
        waiting = self._waiting.get(header["id"])
        if waiting and not waiting.done():  # else the caller has timed out
            waiting.set_result((header, payload))

    async def stop(self, patience_s: float) -> None:
        """Ask the supervisor to kill all processes of the sandbox, then close the connection."""
        try:
            await self.request({"op": "stop"}, patience_s=patience_s)
        except SandboxError:
            pass  # already dead
        finally:
            self.close(STOPPED)

    def close(self, reason: str) -> None:
        """Close the connection, which ends the sandbox. Pending requests raise SandboxError with `reason`."""
        self._death = self._death or reason
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(SandboxError(self._death))
        self._writer.close()
