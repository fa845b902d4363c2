"""Work in sandboxes, watched on the terminal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from turnsmith.config import SandboxConfig
from turnsmith.tracking import Progress
from turnsmith.ui.live import watching

if TYPE_CHECKING:
    from turnsmith.sandboxes.base import SandboxProvider

T = TypeVar("T")


def work_in_sandboxes(config: SandboxConfig, work: "Callable[[SandboxProvider, Progress], Awaitable[T]]") -> T:
    """What the work gives; its sandboxes end with it."""
    return asyncio.run(_work(config, work))


async def _work(config: SandboxConfig, work: "Callable[[SandboxProvider, Progress], Awaitable[T]]") -> T:
    from turnsmith.sandboxes import make_provider

    provider = make_provider(config)
    try:
        with watching() as progress:
            return await work(provider, progress)
    finally:
        await provider.close()
