"""Concurrent processing of items, with results in the order of the items."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_in_order(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], num_ahead: int
) -> AsyncGenerator[tuple[T, R], None]:
    """Process items concurrently, `num_ahead` at a time; yield (item, result) in input order.

    Closing the generator cancels the rest.
    """
    waiting, running = iter(items), deque[tuple[T, asyncio.Future[R]]]()
    try:
        while True:
            running.extend(
                (item, asyncio.ensure_future(work(item))) for item in islice(waiting, num_ahead - len(running))
            )
            if not running:
                return
            item, result = running[0]
            yield item, await result
            running.popleft()
    finally:
        for _, result in running:
            result.cancel()
        await asyncio.gather(*(result for _, result in running), return_exceptions=True)
