"""Work that must come to its end, whoever is cancelled meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns; who is cancelled meanwhile still waits for its end."""
    working = asyncio.create_task(work)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        working.exception()  # looked at, also where nobody asks any longer


async def finish_in_thread(work: Callable[[], T]) -> T:
    """The same of work in a thread, since no thread can be interrupted."""
    return await finish(asyncio.to_thread(work))
