"""Work in a thread that must come to its end, since no thread can be interrupted."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def finish_in_thread(work: Callable[[], T]) -> T:
    """What the work returns; who is cancelled meanwhile still waits for its end."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        working.exception()  # looked at, also where nobody asks any longer
