"""Work that must come to its end, whoever is cancelled meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
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


async def draw(items: Iterator[T]) -> AsyncIterator[T]:
    """Each of the items, none of which is None, made in a thread."""
    while (item := await finish_in_thread(lambda: next(items, None))) is not None:
        yield item
