"""Host side of a connection, with an untrusted peer."""

import asyncio
import gc
import json
import socket

import pytest

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.inside import wire
from turnsmith.sandboxes.local import receive_scratch

INVALID_FRAMES = {
    "no JSON": wire.PREFIX.pack(3, 0) + b"{x}",
    "no Unicode": wire.PREFIX.pack(2, 0) + b"\xff\xfe",
    "no object": wire.PREFIX.pack(1, 0) + b"5",
    "no number": wire.pack({"exit_code": 0}),
    "a list for a number": wire.pack({"id": []}),
    "very deep": wire.PREFIX.pack(200_000, 0) + b"[" * 200_000,
    "an endless header": wire.PREFIX.pack(0xFFFF_FFFF, 0),
    "an endless payload": wire.PREFIX.pack(8, 1 << 40) + json.dumps({"id": 0}).encode(),
    "a payload above the limit": wire.pack({"id": 0}, bytes(101)),
}


@pytest.mark.parametrize("frame", INVALID_FRAMES)
async def test_an_invalid_answer_raises_a_sandbox_error(frame):
    ours, theirs = socket.socketpair()
    with theirs:
        connection = await Connection.open(ours, max_payload_bytes=100)
        theirs.setblocking(True)
        theirs.sendall(INVALID_FRAMES[frame])
        for _ in range(2):
            with pytest.raises(SandboxError, match="invalid answer"):
                await connection.request({"op": "read"}, patience_s=5)


async def test_whoever_is_stopped_while_it_opens_leaves_no_error_in_the_loop():
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    for num_steps in range(6):
        ours, theirs = socket.socketpair()
        with theirs:
            opening = asyncio.create_task(Connection.open(ours, max_payload_bytes=100))
            for _ in range(num_steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            ours.close() if num_steps == 0 else await asyncio.sleep(0)
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    others.clear()
    gc.collect()  # the loop reports an error that nobody has fetched once its task is gone
    assert faults == []


async def test_a_payload_of_the_limit_passes():
    ours, theirs = socket.socketpair()
    with theirs:
        connection = await Connection.open(ours, max_payload_bytes=100)
        theirs.sendall(wire.pack({"id": 0}, bytes(100)))
        assert await connection.request({"op": "read"}, patience_s=5) == ({"id": 0}, bytes(100))
        connection.close("done")


async def test_a_first_frame_without_a_descriptor_is_an_error_of_the_host():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.pack({}))
        with pytest.raises(OSError, match="Too many open files"):
            await receive_scratch(ours)
