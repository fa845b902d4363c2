"""Loops that call a function on each item and show how many items are done."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import TypeVar

from turnsmith.tracking import Progress

T = TypeVar("T")
R = TypeVar("R")
INTERVAL_S = 0.1
"""Minimum interval between two reports of a loop, because drawing a report may take longer than handling an item."""


async def for_each(
    items: Sequence[T],
    work: Callable[[T], Awaitable[R]],
    progress: Progress,
    label: str,
    *,
    num_workers: int | None = None,
    num_done: int = 0,
    describe: Callable[[R], str] = lambda result: "",
) -> list[R]:
    """Call `work` on every item, at most `num_workers` at once (None for all), and return the results in order of the items.

    `num_done` further items were done earlier. `describe` turns a result into a short text. Raises ExceptionGroup.
    """
    free = asyncio.Semaphore(num_workers) if num_workers else nullcontext()
    with progress.work(label, num_done + len(items), num_done) as shown:

        async def run(item: T) -> R:
            async with free:
                result = await work(item)
            shown.advance(note=describe(result))
            return result

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(item)) for item in items]
    return [task.result() for task in tasks]


def follow(
    items: Iterable[T], progress: Progress, label: str, total: int, *, describe: Callable[[T], str] = lambda item: ""
) -> Iterator[T]:
    """Yield the items unchanged, and report their number at most every 0.1 s. `describe` turns an item into a short text."""
    with progress.work(label, total) as shown:
        num_new, shown_at = 0, monotonic()
        for item in items:
            yield item
            num_new += 1
            if monotonic() - shown_at >= INTERVAL_S:
                shown.advance(num_new, describe(item))
                num_new, shown_at = 0, monotonic()
        shown.advance(num_new)
